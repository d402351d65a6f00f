# SPDX-License-Identifier: Apache-2.0
"""Screen recordings of which everything is known: what was shown, when it froze, and in which rendition.

Pictures as a camera takes them (dead leaves with 1/f texture, moved, cut, with noise) are encoded at each rung
as a site would, decoded, put on a page as Chromium puts them there (bilinear: measured), and recorded at 60 frames a
second with the settings of `sojourn.captures.screen`. Beside it stands the log that the page's player would have kept.
One seed, one recording. Seeds below 10 000 are for tuning, those from there on are held out.
"""

from __future__ import annotations

import pickle
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import polars as pl

from sojourn.captures.screen import FINE_QUANTISER, FPS, encoding
from sojourn.hardware.machine import cache

Luma = npt.NDArray[np.uint8]
Painter = Callable[[float], Luma]

HELD_OUT = 10_000
START = 1_795_000_000.0  # Unix s of the first recorded frame
SCREEN = (1280, 720)
RUNGS = {240: (426, 300), 360: (640, 700), 480: (854, 1500), 720: (1280, 3500)}  # height: width, kbit/s
CODECS = ("h264", "vp9", "av1")
NOISES = (0.0, 1.0, 2.5, 5.0)  # standard deviation of the camera's noise in levels
DISPLAYS = ((1280, 720), (960, 540), (854, 480))
LENGTHS = (0.1, 0.15, 0.25, 0.35, 0.45, 0.6, 0.8, 1.2, 2.0, 3.5, 6.0, 10.0)
_ENCODERS = {
    "h264": ["-c:v", "libx264", "-preset", "medium", "-g", "60", "-sc_threshold", "0"],
    "vp9": ["-c:v", "libvpx-vp9", "-deadline", "realtime", "-cpu-used", "6", "-row-mt", "1", "-g", "150"],
    "av1": ["-c:v", "libsvtav1", "-preset", "10", "-g", "150"],
}
_SIZE = (1280, 720)  # of the camera
#: A recording's truth, in its folder of the cache.
_MADE = "recording.pickle"


@dataclass(frozen=True)
class Case:
    """What is drawn from a seed. Times in s; `stops` are (media frame held, s held, kind, where)."""

    seed: int
    codec: str
    noise: float
    box: tuple[int, int, int, int]  # x, y, width, height of the video on the screen
    fps: int
    scenes: list[tuple[float, str]]  # length, kind
    rungs: list[tuple[float, int]]  # from which media time on, height
    stops: list[tuple[int, float, str, str]]
    hiccups: list[tuple[int, str]]  # media frame, "drop" or "double"
    spinner: bool
    captions: bool
    controls: bool
    busy_page: bool


@dataclass(frozen=True)
class Recording:
    """A recording and its truth: `frames` has the columns t (Unix s) and frame (of the source), as a strip would."""

    case: Case
    video: Path
    frames: pl.DataFrame
    heights: list[tuple[float, float, int]]  # Unix s from, to, rung on the screen
    samples: list[dict[str, Any]]  # lines of player.jsonl
    stops: list[tuple[float, float, str]]  # Unix s, s, where


def draw(seed: int) -> Case:
    """The case of a seed: codec, noise and display take all their combinations in 36 seeds."""
    rng = np.random.default_rng((5, seed))
    width, height = DISPLAYS[seed // 12 % 3]
    room = SCREEN[0] - width, SCREEN[1] - height
    x, y = (int(rng.integers(0, r + 1)) if r else 0 for r in room)
    fps = int(rng.choice([30, 30, 30, 25]))
    scenes, kinds = [], rng.permutation(["pan", "objects", "head", "pan", "zoom"])
    for kind in kinds[:4]:
        scenes.append((float(rng.uniform(2.2, 4.0)), str(kind)))
    scenes.insert(int(rng.integers(1, 4)), (float(rng.uniform(2.5, 5.0)), "still"))
    if rng.random() < 0.3:
        scenes.insert(int(rng.integers(1, 5)), (float(rng.uniform(1.0, 3.0)), "slide"))
    if rng.random() < 0.3:  # a still scene may come first or last as well
        scenes.append(scenes.pop(next(i for i, (_, kind) in enumerate(scenes) if kind == "still")))
    seconds = sum(length for length, _ in scenes)
    rungs, at = [], 0.0
    while at < seconds - 2:
        rungs.append((at, int(rng.choice([h for h in RUNGS if not rungs or h != rungs[-1][1]]))))
        at += float(rng.integers(2, 6))
    stops = _stops(rng, scenes, fps)
    taken = {frame + k for frame, *_ in stops for k in range(-12, 13)}
    free = [f for f in range(10, int(seconds * fps) - 10) if f not in taken]
    hiccups = [(int(f), str(rng.choice(["drop", "double"]))) for f in rng.choice(free, 6, replace=False)]
    flags = rng.random(4) < (0.5, 0.5, 0.4, 0.4)
    return Case(
        seed, CODECS[seed % 3], NOISES[seed // 3 % 4], (x, y, width, height), fps, scenes, rungs, stops,
        sorted(hiccups), *map(bool, flags),
    )  # fmt: skip


def _stops(
    rng: np.random.Generator, scenes: Sequence[tuple[float, str]], fps: int
) -> list[tuple[int, float, str, str]]:
    """Freezes, at most one a scene: at its cut (its first frame or the last before it), or within it."""
    spans = []
    edges = np.cumsum([0, *(length for length, _ in scenes)])
    last = int(edges[-1] * fps) - 2
    for number, (_, kind) in enumerate(scenes):
        first, end = (int(np.ceil(edge * fps)) for edge in edges[number : number + 2])
        where = "still" if kind in ("still", "slide") else "cut" if rng.random() < 0.3 and number else "motion"
        if number == 0 and rng.random() < 0.25:
            frame, where = 0, "start"
        elif number == len(scenes) - 1 and rng.random() < 0.4:
            frame, where = last, "end"
        elif where == "cut":
            frame = first - int(rng.integers(0, 2))
        else:
            frame = int(rng.integers(first + fps // 2, max(first + fps // 2 + 1, end - fps // 2)))
        weights = np.array([2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 0.5, 0.25])
        length = float(rng.choice(LENGTHS, p=weights / weights.sum())) * float(rng.uniform(0.95, 1.2))
        spans.append((frame, length, str(rng.choice(["stall", "stall", "skip"])), where))
    return sorted(spans)


def leaves(rng: np.random.Generator, rows: int, columns: int) -> Luma:
    """Dead leaves: discs that hide one another, radii by a power law, with 1/f texture: edges and spectrum of photos.

    A. B. Lee, D. Mumford, J. Huang, "Occlusion Models for Natural Images", IJCV 41, 2001.
    """
    size = 1 << 11
    y, x = (np.fft.fftfreq(size)[:, None] * size, np.fft.rfftfreq(size)[None, :] * size)
    radius = np.hypot(y, x)
    radius[0, 0] = np.inf
    phase = np.exp(2j * np.pi * rng.random(radius.shape))
    field = np.fft.irfft2(phase / radius**1.15, (size, size))[:rows, :columns]
    field = (field / field.std() * rng.uniform(10, 16)).astype(np.float32)
    picture = np.full((rows, columns), 110, np.float32)
    radii = np.clip(6 / np.sqrt(rng.random(2500)), 6, 300)
    for r, cx, cy, level in zip(
        np.sort(radii)[::-1], rng.uniform(0, columns, 2500), rng.uniform(0, rows, 2500), rng.uniform(40, 200, 2500),
        strict=True,
    ):  # fmt: skip
        cv2.circle(picture, (int(cx * 16), int(cy * 16)), int(r * 16), float(level), -1, cv2.LINE_AA, 4)
    return np.clip(picture + field, 16, 235).astype(np.uint8)


def _scene(rng: np.random.Generator, kind: str, seconds: float) -> Painter:
    """One scene: seconds since it began -> picture."""
    width, height = _SIZE
    big = leaves(rng, height + 260, width + 500)
    if kind == "slide":
        page = np.full((height, width), int(rng.integers(60, 220)), np.uint8)
        for row in range(6):
            text = "".join(rng.choice(list("abcdefghijklmnopqrstuvwxyz     "), 34))
            cv2.putText(page, text, (90, 140 + 90 * row), cv2.FONT_HERSHEY_DUPLEX, 1.6, 20, 3, cv2.LINE_AA)
        return lambda t: page
    if kind in ("pan", "zoom"):
        direction, speed = rng.uniform(0, 2 * np.pi), rng.uniform(25, 120)
        dx, dy = np.cos(direction) * speed, 0.4 * np.sin(direction) * speed
        rate = float(rng.uniform(0.02, 0.06)) if kind == "zoom" else 0.0

        def fly(t: float) -> Luma:
            s = t - seconds / 2
            view = np.array([[1 + rate * t, 0, -250 + dx * s], [0, 1 + rate * t, -130 + dy * s]])
            return np.asarray(cv2.warpAffine(big, view, _SIZE, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT))

        return fly
    ground = np.ascontiguousarray(big[130 : 130 + height, 250 : 250 + width])
    if kind == "still":
        return lambda t: ground
    count = 1 if kind == "head" else 3
    sizes = [(150, 200)] if kind == "head" else [tuple(rng.integers(60, 140, 2)) for _ in range(3)]
    centres = [(width * rng.uniform(0.4, 0.6), height * 0.55)] if kind == "head" else (
        [(width * rng.uniform(0.2, 0.8), height * rng.uniform(0.25, 0.7)) for _ in range(3)]
    )  # fmt: skip
    reach, pace = ((9, 5), (0.6, 1.0)) if kind == "head" else ((160, 70), (0.25, 0.5))
    paces, phases = rng.uniform(*pace, (count, 2)), rng.uniform(0, 2 * np.pi, (count, 2))
    texture = leaves(rng, height + 260, width + 500)

    def move(t: float) -> Luma:
        frame = ground.copy()
        for n in range(count):
            swing = np.sin(2 * np.pi * paces[n] * t + phases[n]) * reach
            view = np.float32([[1, 0, -250 + swing[0]], [0, 1, -130 + swing[1]]])
            moved = cv2.warpAffine(texture, view, _SIZE, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT)
            mask = np.zeros_like(frame)
            at = tuple(int(v * 16) for v in np.add(centres[n], swing))
            cv2.ellipse(mask, at, (int(sizes[n][0] * 16), int(sizes[n][1] * 16)), 0, 0, 360, 255, -1, cv2.LINE_AA, 4)
            alpha = mask.astype(np.float32) / 255
            frame = (frame * (1 - alpha) + moved * alpha).astype(np.uint8)
        return frame

    return move


def pictures(case: Case) -> Iterator[Luma]:
    """What the camera takes, frame by frame."""
    rng = np.random.default_rng((6, case.seed))
    width, height = _SIZE
    fields = [
        cv2.GaussianBlur(rng.normal(0, 1, (height + 64, width + 64)).astype(np.float32), (0, 0), 0.5) for _ in range(4)
    ]
    fields = [field / field.std() for field in fields]
    at, number = 0.0, 0
    for length, kind in case.scenes:
        paint = _scene(rng, kind, length)
        while number / case.fps < at + length - 1e-9:
            frame = paint(number / case.fps - at)
            if case.noise and kind != "slide":
                dy, dx = rng.integers(0, 64, 2)
                grain = fields[int(rng.integers(4))][dy : dy + height, dx : dx + width]
                frame = cv2.add(frame, grain * case.noise, dtype=cv2.CV_8U)
            yield frame
            number += 1
        at += length


def _encode(case: Case, folder: Path) -> tuple[dict[int, Path], int]:
    """One file a rung in use, and the number of frames."""
    heights = sorted({height for _, height in case.rungs})
    graph = f"[0:v]split={len(heights)}" + "".join(f"[s{h}]" for h in heights)
    graph += "".join(f";[s{h}]scale={RUNGS[h][0]}:{h}:flags=area[o{h}]" for h in heights)
    command = ["ffmpeg", "-v", "error", "-nostdin", "-y", "-f", "rawvideo", "-pix_fmt", "yuv420p"]
    command += ["-s", f"{_SIZE[0]}x{_SIZE[1]}", "-r", str(case.fps), "-i", "-", "-filter_complex", graph]
    files = {h: folder / f"{h}.mkv" for h in heights}
    for height, file in files.items():
        rate = RUNGS[height][1] * (1.0 if case.codec == "h264" else 0.75)
        command += ["-map", f"[o{height}]", *_ENCODERS[case.codec], "-b:v", f"{rate:.0f}k"]
        if case.codec != "av1":
            command += ["-maxrate", f"{rate * 1.25:.0f}k", "-bufsize", f"{rate * 2:.0f}k"]
        command.append(str(file))
    count = 0
    grey = bytes([128]) * (_SIZE[0] * _SIZE[1] // 2)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as ffmpeg:
        assert ffmpeg.stdin
        for frame in pictures(case):
            ffmpeg.stdin.write(frame.tobytes() + grey)
            count += 1
    if ffmpeg.returncode:
        raise RuntimeError(f"ffmpeg could not encode {case.codec}")
    return files, count


def _shown(case: Case, count: int) -> list[tuple[float, int]]:
    """(s, media frame) of each frame put on the screen, at the refreshes of a screen of 60 Hz."""
    step, now, frame, shown = 1 / case.fps, 0.0, 0, []
    held = {f: (length, kind) for f, length, kind, _ in case.stops}
    odd = dict(case.hiccups)
    while frame < count:
        shown.append((np.ceil(now * 60 - 1e-6) / 60, frame))
        length, kind = held.get(frame, (step, "stall"))
        if odd.get(frame) == "double":
            length += step
        now += max(length, step)
        frame += round(length / step) if kind == "skip" else 1
        if odd.get(frame) == "drop":
            now, frame = now + step, frame + 1
    return [*shown, (np.ceil(now * 60 - 1e-6) / 60, count)]


def _log(case: Case, shown: Sequence[tuple[float, int]], rng: np.random.Generator) -> list[dict[str, Any]]:
    """What the page's player says every 250 ms; its clock stands still in a stall and runs on in a skip."""
    times = np.array([t for t, _ in shown])
    media = np.array([frame for _, frame in shown])
    stall = {f for f, length, kind, _ in case.stops if kind == "stall" and length > 2 / case.fps}
    lines: list[dict[str, Any]] = []
    for t, frame in shown[:-1]:
        if frame in stall:
            end = float(times[np.searchsorted(media, frame) + 1])
            lines += [{"t": START + t + 1 / case.fps, "event": "waiting", "detail": frame / case.fps}]
            lines += [{"t": START + end, "event": "playing", "detail": frame / case.fps}]
    at = float(rng.uniform(0, 0.25))
    while at < times[-1]:
        i = int(np.searchsorted(times, at, "right")) - 1
        frame = int(media[i])
        ahead = min(at - times[i], (1 / case.fps) if frame in stall else 10.0)
        lines.append({
            "t": START + at, "playing": True, "quality": f"{_rung(case, frame)}p", "height": _rung(case, frame),
            "currentTime": frame / case.fps + ahead, "totalFrames": frame + 1, "droppedFrames": frame - i,
            "waiting": bool(frame in stall and at - times[i] > 1 / case.fps),
        })  # fmt: skip
        at += 0.25 + float(abs(rng.normal(0, 0.004)))
    return sorted(lines, key=lambda line: float(line["t"]))


def _rung(case: Case, frame: int) -> int:
    return [height for start, height in case.rungs if start <= frame / case.fps + 1e-9][-1]


def make(seed: int, folder: Path) -> Recording:
    """Make the recording of a seed in `folder` (20 s to 40 s of screen in about as long on one core)."""
    case = draw(seed)
    files, count = _encode(case, folder)
    rng = np.random.default_rng((7, seed))
    shown = _shown(case, count)
    last = shown[-1][0]
    grabs = np.arange(int(last * FPS)) / FPS
    seen = np.clip(grabs + rng.uniform(0.2, 0.8) / FPS + rng.normal(0, 0.001, len(grabs)), 0, last)
    index = np.searchsorted([t for t, _ in shown], seen, "right") - 1
    frames = [shown[min(i, len(shown) - 2)][1] for i in index]
    video = folder / f"{seed}.mp4"
    _record(case, files, frames, video)
    for file in files.values():
        file.unlink()
    heights: list[tuple[float, float, int]] = []
    for t, frame in zip(grabs + START, frames, strict=True):
        height = _rung(case, frame)
        if heights and heights[-1][2] == height:
            heights[-1] = (heights[-1][0], float(t) + 1 / FPS, height)
        else:
            heights.append((float(t), float(t) + 1 / FPS, height))
    at = dict(zip((frame for _, frame in shown), (t for t, _ in shown), strict=True))
    return Recording(
        case, video, pl.DataFrame({"t": grabs + START, "frame": frames}), heights, _log(case, shown, rng),
        [(START + at[f], length, where) for f, length, _, where in case.stops if f in at],
    )  # fmt: skip


def ensure(seed: int) -> Recording:
    """Return the recording of a seed, made now if it is not in the cache."""
    ffmpeg = subprocess.run(["ffmpeg", "-version"], capture_output=True, check=True).stdout
    decides = {"seed": f"{seed}", "encoding": " ".join(encoding(FPS, FINE_QUANTISER)), "cv2": cv2.__version__}
    decides |= {"numpy": np.__version__, "polars": pl.__version__}
    parts = [("ffmpeg", ffmpeg), ("code", Path(__file__).read_bytes()), *((n, t.encode()) for n, t in decides.items())]

    def build(folder: Path) -> None:
        (folder / _MADE).write_bytes(pickle.dumps(make(seed, folder)))

    entry = cache.build_once(cache.root() / "recordings" / cache.digest(parts), build)
    made: Recording = pickle.loads((entry / _MADE).read_bytes())
    return replace(made, video=entry / made.video.name)


def _record(case: Case, files: dict[int, Path], frames: Sequence[int], video: Path) -> None:
    """Put the pictures on a page and record it."""
    rng = np.random.default_rng((8, case.seed))
    x, y, width, height = case.box
    page = np.full((SCREEN[1], SCREEN[0]), int(rng.choice([15, 24, 250])), np.uint8)
    for row in range(20, SCREEN[1], 36):
        text = "".join(rng.choice(list("abcdefghijklmnopqrstuvwxyz    "), 90))
        cv2.putText(page, text, (10, row), cv2.FONT_HERSHEY_DUPLEX, 0.7, 130, 1, cv2.LINE_AA)
    decoders = {rung: _Decoder(file, RUNGS[rung][0], rung) for rung, file in files.items()}
    command = ["ffmpeg", "-v", "error", "-nostdin", "-y", "-f", "rawvideo", "-pix_fmt", "yuv420p"]
    command += ["-s", f"{SCREEN[0]}x{SCREEN[1]}", "-r", str(FPS), "-i", "-", *encoding(FPS, FINE_QUANTISER), str(video)]
    grey = bytes([128]) * (SCREEN[0] * SCREEN[1] // 2)
    view, before, since = np.zeros((height, width), np.uint8), -1, 0
    with subprocess.Popen(command, stdin=subprocess.PIPE) as ffmpeg:
        assert ffmpeg.stdin
        for number, frame in enumerate(frames):
            if frame != before:
                picture = decoders[_rung(case, frame)].frame(frame)
                view = cv2.resize(picture, (width, height), interpolation=cv2.INTER_LINEAR)
                before, since = frame, number
            screen = page.copy()
            screen[y : y + height, x : x + width] = view
            _overlay(case, screen[y : y + height, x : x + width], number / FPS, (number - since) / FPS)
            if case.busy_page and min(x, y) > 40:
                cv2.putText(screen, f"{number // 15}", (4, y - 10), cv2.FONT_HERSHEY_DUPLEX, 0.8, 90, 2, cv2.LINE_AA)
            ffmpeg.stdin.write(screen.tobytes() + grey)
    for decoder in decoders.values():
        decoder.close()
    if ffmpeg.returncode:
        raise RuntimeError("ffmpeg could not record")


def _overlay(case: Case, view: Luma, t: float, held: float) -> None:
    """A spinner while the picture is held for longer than 0.3 s, captions that change, controls with a clock."""
    height, width = view.shape
    if case.spinner and held > 0.3:
        angle = int(t * 300) % 360
        cv2.ellipse(view, (width // 2, height // 2), (30, 30), angle, 0, 270, 255, 5, cv2.LINE_AA)
    if case.captions and int(t / 2) % 4:
        words = f"caption {int(t / 2) * 7919 % 1000} is what they say"
        at = (width // 2 - 200, int(height * 0.86))
        cv2.rectangle(view, (at[0] - 8, at[1] - 28), (at[0] + 430, at[1] + 10), 8, -1)
        cv2.putText(view, words, at, cv2.FONT_HERSHEY_DUPLEX, 0.8, 245, 1, cv2.LINE_AA)
    if case.controls and int(t / 5) % 2:
        cv2.rectangle(view, (12, height - 36), (width - 12, height - 33), 120, -1)
        cv2.rectangle(view, (12, height - 36), (12 + int((width - 24) * (t % 60) / 60), height - 33), 220, -1)
        cv2.putText(view, f"0:{int(t) % 60:02}", (14, height - 12), cv2.FONT_HERSHEY_DUPLEX, 0.6, 240, 1, cv2.LINE_AA)


class _Decoder:
    """The frames of a rendition, in rising order."""

    def __init__(self, file: Path, width: int, height: int) -> None:
        self._shape = height, width
        command = ["ffmpeg", "-v", "error", "-nostdin", "-i", str(file), "-fps_mode", "passthrough"]
        command += ["-f", "rawvideo", "-pix_fmt", "yuv420p", "pipe:1"]
        self._ffmpeg = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self._next = 0

    def frame(self, number: int) -> Luma:
        assert self._ffmpeg.stdout
        height, width = self._shape
        raw = b""
        while self._next <= number:
            raw = self._ffmpeg.stdout.read(height * width + 2 * -(-height // 2) * -(-width // 2))
            self._next += 1
        return np.frombuffer(raw, np.uint8)[: height * width].reshape(self._shape)

    def close(self) -> None:
        self._ffmpeg.kill()
        self._ffmpeg.wait()
        assert self._ffmpeg.stdout
        self._ffmpeg.stdout.close()
