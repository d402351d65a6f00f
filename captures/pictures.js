// SPDX-License-Identifier: Apache-2.0
// Makes captures/call.js, which runs after, report when each frame of the other end reaches the page: what a recording of
// the screen would show, of calls whose screens are not recorded.
(() => {
  'use strict';
  if (window.__sojourn) window.__sojourn.pictures = true;
})();
