// SPDX-License-Identifier: Apache-2.0
// Watches how a page loads, by the browser's own Navigation Timing, Paint Timing and Largest Contentful Paint.
(() => {
  'use strict';
  if (window !== window.top || !location.protocol.startsWith('http')) return;
  const painted = { fcp: null, lcp: null };
  let errors = 0;
  performance.setResourceTimingBufferSize(10000);
  const observe = (type, take) => new PerformanceObserver((list) => list.getEntries().forEach(take)).observe({ type, buffered: true });
  observe('paint', ({ name, startTime }) => { if (name === 'first-contentful-paint') painted.fcp = startTime; });
  observe('largest-contentful-paint', ({ startTime }) => { painted.lcp = startTime; });
  // Errors of resources do not bubble, but they can be captured on their way down.
  addEventListener('error', ({ target }) => { if (target !== window && (target.src || target.href)) errors += 1; }, true);

  const reached = (time) => (time > 0 ? time : null);
  window.__sojournLoad = () => {
    const [navigation] = performance.getEntriesByType('navigation');
    return {
      start: performance.timeOrigin,
      now: performance.now(),
      ttfb: reached(navigation.responseStart),
      ...painted,
      dcl: reached(navigation.domContentLoadedEventEnd),
      load: reached(navigation.loadEventEnd),
      // The document counts once it is whole.
      done: [...(navigation.responseEnd > 0 ? [location.pathname] : []),
        ...performance.getEntriesByType('resource').map(({ name }) => new URL(name).pathname)],
      errors,
    };
  };
})();
