// SPDX-License-Identifier: Apache-2.0
// What esbuild makes one script of: RxPlayer's package has modules only (apps/players/__init__.py).
import RxPlayer from 'rx-player/minimal';
import { DASH, MEDIA_SOURCE_MAIN } from 'rx-player/features';

RxPlayer.addFeatures([DASH, MEDIA_SOURCE_MAIN]);
window.RxPlayer = RxPlayer;
