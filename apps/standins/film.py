# SPDX-License-Identifier: Apache-2.0
"""The user's film as the pictures of a clip: any local file that ffmpeg can read."""

from __future__ import annotations

import hashlib
import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from sojourn.hardware.confine.decoder import decoder
from sojourn.hardware.machine.errors import CodedError
from sojourn.scoring.picture.recording import QUIET

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MOST_S = 300
"""The part of a film that is played in a loop, from its beginning, s; encoding takes about as long."""
#: By how much the pictures of a film may end before its nominal length, s: the last one is shown that long.
_SHORT_S = 1.0
#: Self-contained file formats: a playlist or a concatenation makes ffmpeg open other files and addresses.
_KINDS = "mov,matroska,avi,mpegts,mpeg,flv,ogg,asf,mxf,nut,ivf,yuv4mpegpipe,gif,h264,hevc,mpegvideo,m4v"
#: The codecs of films, including sound and subtitles, which ffprobe opens.
_CODECS = (
    "h264,hevc,av1,libdav1d,libaom-av1,vp8,vp9,libvpx,libvpx-vp9,mpeg1video,mpeg2video,mpeg4,msmpeg4v2,msmpeg4,h263,flv,"
    "wmv1,wmv2,wmv3,vc1,theora,prores,dnxhd,dvvideo,mjpeg,ffv1,ffvhuff,huffyuv,utvideo,rawvideo,wrapped_avframe,gif,"
    "aac,aac_latm,ac3,eac3,dca,mp2float,mp2,mp3float,mp3,opus,libopus,vorbis,libvorbis,flac,alac,wmav1,wmav2,pcm_s16le,"
    "pcm_s16be,pcm_s24le,pcm_s24be,pcm_s32le,pcm_f32le,pcm_u8,pcm_alaw,pcm_mulaw,mov_text,srt,subrip,ass,ssa,webvtt,"
    "dvdsub,dvbsub,pgssub,cc_dec"
)
_ONLY = ("-protocol_whitelist", "file", "-format_whitelist", _KINDS, "-codec_whitelist", _CODECS)
_NOT_LISTED = re.compile(r"Codec \((\S+)\) not on whitelist")


class FilmError(CodedError):
    """A film that cannot be played; one line that names it."""


@dataclass(frozen=True)
class Film:
    """A film's file; the part that is played is a multiple of `step_s`, s."""

    path: Path
    step_s: int = 2

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the file. Raises FilmError."""
        return self._digest()

    def _digest(self) -> str:
        if self.path.exists() and not self.path.is_file():
            raise FilmError(f"{self.path}: not a film: not a regular file", code="not-a-file")
        try:
            with self.path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise FilmError(f"{self.path}: {error.strerror}", code="unreadable-file") from error

    @cached_property
    def seconds(self) -> int:
        """The length of the part that is played. Raises FilmError for a file that is not a film, or too short."""
        selection = ["-select_streams", "v:0", "-show_entries", "format=duration:stream=codec_type", "-of", "csv=p=0"]
        with tempfile.TemporaryFile() as said, decoder("ffprobe", [self.path]) as ready:
            probe = [*ready.command, *QUIET, *selection, *_ONLY, "-i", f"file:{ready.names[self.path]}"]
            output = subprocess.run(probe, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said, check=False)
            said.seek(0)
            text = said.read(4000).decode(errors="replace").strip()
        why = text.splitlines()[-1] if text else "no video in it"
        if codec := _NOT_LISTED.search(text):
            why = f"its codec {codec[1]} is not supported; give a film in a common codec, such as H.264"
        lines = output.stdout.decode(errors="replace").split()
        try:
            length = float(lines[-1])
        except (IndexError, ValueError):
            length = 0.0
        if output.returncode or not lines or lines[0].strip(",") != "video":
            raise FilmError(f"{self.path}: not a film: {why}", code="unsupported")
        if length < self.step_s:
            raise FilmError(f"{self.path}: {length:g} s long; give at least {self.step_s} s", code="too-short")
        return min(MOST_S, int(length)) // self.step_s * self.step_s

    def pictures(self, width: int, height: int, fps: int) -> Iterator[bytes]:
        """Yield the first `seconds` as raw yuv420p pictures of this size, with black bars if the aspect ratio differs.

        Raises FilmError if its pictures end early.
        """
        fitted = f"scale={width}:{height}:force_original_aspect_ratio=decrease:force_divisible_by=2"
        filters = f"fps={fps},{fitted},pad={width}:{height}:(ow-iw)/2:(oh-ih)/2,setsar=1,format=yuv420p"
        size, count = width * height * 3 // 2, self.seconds * fps
        further = ["-map", "0:v:0", "-an", "-sn", "-t", str(self.seconds), "-vf", filters, "-f", "rawvideo", "pipe:1"]
        with decoder("ffmpeg", [self.path]) as ready:
            command = [*ready.command, *QUIET, "-nostdin", *_ONLY, "-i", f"file:{ready.names[self.path]}", *further]
            with subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            ) as ffmpeg:
                assert ffmpeg.stdout is not None
                made, last = 0, b""
                try:
                    while made < count and len(raw := ffmpeg.stdout.read(size)) == size:
                        made, last = made + 1, raw
                        yield raw
                finally:
                    ffmpeg.kill()
        if count - made > _SHORT_S * fps:
            raise FilmError(
                f"{self.path}: its pictures end at {made / fps:g} s of {self.seconds} s; is it complete?",
                code="truncated",
            )
        for _ in range(count - made):
            yield last
        if self._digest() != self.digest:
            raise FilmError(
                f"{self.path}: changed while it was read; try again when the file no longer changes", code="altered"
            )

    def colours(self, width: int, height: int, fps: int) -> Iterator[npt.NDArray[np.uint8]]:
        """Yield the same as RGB pictures (rows, columns, 3)."""
        import cv2
        import numpy as np

        for raw in self.pictures(width, height, fps):
            yuv = np.frombuffer(raw, np.uint8).reshape(height * 3 // 2, width)
            yield np.asarray(cv2.cvtColor(yuv, cv2.COLOR_YUV2RGB_I420), np.uint8)
