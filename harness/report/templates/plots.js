// SPDX-License-Identifier: Apache-2.0
"use strict";
// Plots that report/svg.py draws: values at the pointer, hidden series, zoom in time, and the recording in step.
(() => {
  const make = (name, of, attributes = {}) => {
    const made = of.appendChild(document.createElementNS(of.namespaceURI, name));
    Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
    return made;
  };
  const shown = value => value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
  // The runs of points of a path of M and L, in px.
  const runs = path => {
    const found = [];
    for (const [, kind, x, y] of path.getAttribute("d").matchAll(/([ML])(-?[\d.]+),(-?[\d.]+)/g)) {
      if (kind === "M") found.push([]);
      found.at(-1).push([Number(x), Number(y)]);
    }
    return found;
  };
  const heightAt = (found, x) => {
    for (const points of found) {
      const next = points.findIndex(point => point[0] >= x);
      if (next > 0) {
        const [[x0, y0], [x1, y1]] = [points[next - 1], points[next]];
        return x1 > x0 ? y0 + (y1 - y0) * (x - x0) / (x1 - x0) : y1;
      }
      if (next === 0 && points[0][0] - x < 12) return points[0][1];
      if (next < 0 && x - points.at(-1)[0] < 12) return points.at(-1)[1];
    }
    return null;
  };
  const press = (button, act) => {
    button.addEventListener("click", event => { event.stopPropagation(); act(); });
    button.addEventListener("keydown", event => {
      if (button.namespaceURI !== document.documentElement.namespaceURI && [" ", "Enter"].includes(event.key)) {
        event.preventDefault(); event.stopPropagation(); act();
      }
    });
  };
  const hides = (button, series) => {
    button.setAttribute("aria-pressed", "true");
    press(button, () => {
      const off = button.getAttribute("aria-pressed") === "true";
      button.setAttribute("aria-pressed", String(!off));
      series.forEach(one => one.classList.toggle("off", off));
    });
  };
  const pixels = (plot, event) => {
    const box = plot.getBoundingClientRect();
    return (event.clientX - box.left) / box.width * plot.viewBox.baseVal.width;
  };

  for (const plot of document.querySelectorAll("svg.ccdf")) {
    const figure = plot.closest("figure"), [left, right, top, bottom, lo, hi, floor] =
      ["left", "right", "top", "bottom", "lo", "hi", "floor"].map(name => Number(plot.dataset[name]));
    const hover = make("line", plot, {class: "hover", x1: -9, x2: -9, y1: top, y2: bottom}), readers = [];
    const axis = plot.querySelector(".axis"), words = axis.textContent;
    for (const entry of figure.querySelectorAll(".key li")) {
      const series = [...plot.querySelectorAll("path[data-name]")].filter(path => path.dataset.name === entry.dataset.name);
      if (!series.length) continue;
      const button = document.createElement("button"), value = document.createElement("b");
      button.type = "button";
      button.append(...entry.childNodes, " ", value);
      entry.append(button);
      hides(button, series);
      const found = runs(series[0]);
      readers.push(x => {
        const y = x === null ? null : heightAt(found, x);
        value.textContent = y === null ? "" : `${shown(10 ** (Math.log10(floor) + (bottom - y) / (bottom - top) * (2 - Math.log10(floor))))} %`;
      });
    }
    plot.addEventListener("pointermove", event => {
      const x = pixels(plot, event), inside = x >= left && x <= right;
      hover.setAttribute("x1", inside ? x : -9); hover.setAttribute("x2", inside ? x : -9);
      axis.textContent = inside ? `${words}: more than ${shown(lo + (x - left) / (right - left) * (hi - lo))}` : words;
      readers.forEach(read => read(inside ? x : null));
    });
    plot.addEventListener("pointerleave", () => {
      hover.setAttribute("x1", -9); hover.setAttribute("x2", -9); axis.textContent = words; readers.forEach(read => read(null));
    });
  }

  const timeline = plot => {
    const [left, right, end] = ["left", "right", "end"].map(name => Number(plot.dataset[name]));
    const windows = [...plot.querySelectorAll(":scope > .window")], bounds = windows.at(-1).viewBox.baseVal;
    const top = bounds.y, bottom = bounds.y + bounds.height, cursor = plot.querySelector(":scope > .cursor");
    const names = [...plot.querySelectorAll(":scope > .phase-name")];
    const phases = [...plot.querySelectorAll("rect.phase")].map((it, n) => {
      const x = Number(it.getAttribute("x")), second = px => (px - left) / (right - left) * end;
      return {start: second(x), end: second(x + Number(it.getAttribute("width"))), name: names[n].textContent, label: names[n]};
    });
    const hover = make("line", plot, {class: "hover", x1: -9, x2: -9, y1: top, y2: bottom});
    const moment = make("text", plot, {class: "phase-name", y: bottom - 4}), brush = make("rect", plot, {class: "brush", y: top, height: bottom - top, width: 0});
    let from = 0, to = end, at = null;
    const x = t => left + (t - from) / (to - from) * (right - left);
    const second = event => from + (pixels(plot, event) - left) / (right - left) * (to - from);
    const place = (line, t) => {
      const px = t !== null && t >= from && t <= to ? x(t) : -9;
      line.setAttribute("x1", px); line.setAttribute("x2", px);
    };

    // Values at the pointer, next to the names in the keys.
    const groups = [...windows.at(-1).children], readers = [];
    plot.querySelectorAll(":scope > .of").forEach((panel, n) => {
      const [high, low, most] = ["top", "bottom", "most"].map(name => Number(panel.dataset[name]));
      for (const entry of panel.querySelectorAll(".entry")) {
        const series = [...groups[n].querySelectorAll("[data-name]")].filter(it => it.dataset.name === entry.dataset.name);
        entry.setAttribute("role", "button"); entry.setAttribute("tabindex", 0);
        hides(entry, series);
        if (series[0]?.localName !== "path" || !most) continue;
        const found = runs(series[0]), now = entry.querySelector(".now");
        readers.push(t => {
          const y = t === null ? null : heightAt(found, left + t / end * (right - left));
          now.textContent = y === null ? "" : ` ${shown((low - y) / (low - high) * most)}`;
        });
      }
    });
    const read = t => {
      at = t;
      place(hover, t);
      moment.textContent = t === null ? "" : `${t.toFixed(1)} s`;
      if (t !== null) moment.setAttribute("x", Math.min(Math.max(x(t), left + 24), right - 24));
      readers.forEach(reader => reader(t));
    };

    // Zoom: the windows' view boxes, and new ticks and names around them.
    const tools = document.createElement("div"), buttons = [];
    let moved = () => {};
    const zoom = (a, b) => {
      [from, to] = b - a < 0.2 ? [0, end] : [Math.max(a, 0), Math.min(b, end)];
      for (const one of windows) {
        const box = one.viewBox.baseVal, wide = right - left;
        one.setAttribute("viewBox", `${left + from / end * wide} ${box.y} ${(to - from) / end * wide} ${box.height}`);
      }
      plot.querySelectorAll(":scope > .tick.x").forEach(tick => tick.remove());
      const raw = (to - from) / 10, power = 10 ** Math.floor(Math.log10(raw));
      const step = [1, 2, 5, 10].map(m => m * power).find(m => m >= raw * 0.999);
      for (let tick = Math.ceil(from / step - 1e-9) * step; tick <= to + 1e-9; tick += step)
        make("text", plot, {class: "tick x", x: x(tick), y: bottom + 16}).textContent = String(Number(tick.toFixed(6)));
      for (const phase of phases) {
        const a = Math.max(phase.start, from), b = Math.min(phase.end, to);
        phase.label.classList.toggle("off", b <= a);
        phase.label.setAttribute("x", x((a + b) / 2));
      }
      buttons.forEach(([button, start, stop]) =>
        button.setAttribute("aria-pressed", String(Math.abs(start - from) < 0.05 && Math.abs(stop - to) < 0.05)));
      read(at); moved();
    };
    tools.className = "tools screen-only";
    const named = phases.filter(phase => phase.name);
    for (const [name, start, stop] of [["Whole run", 0, end], ...(named.length > 1 ? named.map(it => [it.name, it.start, it.end]) : [])]) {
      const button = tools.appendChild(document.createElement("button"));
      button.type = "button"; button.textContent = name;
      button.addEventListener("click", () => zoom(start, stop));
      buttons.push([button, start, stop]);
    }
    plot.closest(".drawn").before(tools);
    for (const phase of named) phase.label.addEventListener("click", () => zoom(phase.start, phase.end));
    plot.setAttribute("role", "group");

    // A drag selects the part to show; without moving, it is a click.
    let down = null, act = () => {};
    plot.addEventListener("pointerdown", event => {
      if (event.button || event.target.closest(".entry, .phase-name")) return;
      const t = second(event);
      if (t < from || t > to) return;
      down = {t, px: event.clientX};
      if (event.pointerType === "mouse") { plot.setPointerCapture(event.pointerId); event.preventDefault(); }
    });
    plot.addEventListener("pointermove", event => {
      const t = second(event), within = Math.min(Math.max(t, from), to);
      read(down || t >= from && t <= to ? within : null);
      if (!down || event.pointerType !== "mouse" || Math.abs(event.clientX - down.px) < 5) return;
      brush.setAttribute("x", Math.min(x(down.t), x(within)));
      brush.setAttribute("width", Math.abs(x(down.t) - x(within)));
    });
    plot.addEventListener("pointerup", event => {
      if (!down) return;
      const drawn = Number(brush.getAttribute("width")) > 0, t = Math.min(Math.max(second(event), from), to);
      brush.setAttribute("width", 0);
      if (drawn) zoom(Math.min(down.t, t), Math.max(down.t, t)); else act(t);
      down = null;
    });
    plot.addEventListener("pointercancel", () => { down = null; brush.setAttribute("width", 0); });
    plot.addEventListener("pointerleave", () => { if (!down) read(null); });
    plot.addEventListener("dblclick", () => zoom(0, end));
    zoom(0, end);

    const video = document.getElementById("screen");
    if (!video) return;
    const offset = Number(video.dataset.offset), words = document.getElementById("at");
    const now = () => video.currentTime + offset, poster = words.textContent;
    let begun = false; // until then, the poster is shown, and the words are its own
    const begin = () => { begun = true; };
    const show = () => {
      const t = now(), phase = phases.filter(({start}) => start <= t + 0.05).at(-1);
      place(cursor, t >= 0 && t <= end ? t : null);
      const at = t < 0 ? `${(-t).toFixed(1)} s before the first phase` : t > end ? "after the last phase" : `${t.toFixed(1)} s, ${phase.name}`;
      cursor.setAttribute("aria-valuenow", t.toFixed(1)); cursor.setAttribute("aria-valuetext", at);
      words.textContent = poster && !begun ? poster : at;
    };
    // What the listener heard plays along; the recording itself has no sound, so the player has no control for it.
    const sound = document.getElementById("sound");
    let join = () => {};
    if (sound) {
      const ahead = offset - Number(sound.dataset.offset), mute = document.createElement("button");
      join = () => {
        const t = video.currentTime + ahead;
        if (video.paused || video.seeking || video.readyState < 3 || t < 0 || t >= (sound.duration || Infinity)) {
          sound.pause();
          return;
        }
        // A jump is inexact: what is left of it goes by a slightly other speed.
        const late = t - sound.currentTime;
        if (!sound.seeking && Math.abs(late) > (sound.paused ? 0.02 : 0.15)) sound.currentTime = t;
        sound.playbackRate = video.playbackRate * (1 + Math.max(-0.1, Math.min(0.1, late)));
        if (sound.paused) sound.play().catch(() => {});
      };
      for (const name of ["play", "playing", "pause", "waiting", "seeking", "seeked", "ratechange"]) video.addEventListener(name, join);
      mute.type = "button"; mute.className = "sound screen-only"; mute.textContent = "Sound";
      mute.setAttribute("aria-pressed", "true");
      mute.addEventListener("click", () => {
        sound.muted = !sound.muted;
        mute.setAttribute("aria-pressed", String(!sound.muted));
      });
      sound.after(mute);
    }
    const seek = t => { video.currentTime = Math.min(Math.max(0, t - offset), video.duration || Infinity); show(); };
    const follow = () => { show(); join(); if (!video.paused && !video.ended) requestAnimationFrame(follow); };
    const keys = {ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10};
    Object.entries({role: "slider", tabindex: 0, "aria-label": "Moment of the recording", "aria-valuemin": 0, "aria-valuemax": end})
      .forEach(([name, value]) => cursor.setAttribute(name, value));
    moved = show;
    act = t => { seek(t); cursor.focus({preventScroll: true}); };
    plot.addEventListener("keydown", event => {
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      if (event.key in keys) seek(now() + keys[event.key] * (event.shiftKey ? 10 : 1));
      else if (event.key === "Home" || event.key === "End") seek(event.key === "Home" ? 0 : end);
      else if (event.key === "Escape") zoom(0, end);
      else if (event.key === " ") video.paused ? video.play() : video.pause();
      else return;
      event.preventDefault();
    });
    document.querySelectorAll(".strip [data-t]").forEach(it => it.addEventListener("click", () => seek(Number(it.dataset.t))));
    for (const name of ["play", "seeking"]) video.addEventListener(name, begin);
    video.addEventListener("play", follow);
    for (const name of ["loadedmetadata", "seeking", "seeked", "timeupdate", "pause"]) video.addEventListener(name, show);
    show();
  };
  document.querySelectorAll(".timeline").forEach(timeline);
})();
