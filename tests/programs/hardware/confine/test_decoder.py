# SPDX-License-Identifier: Apache-2.0
"""Whoever takes a decoder over, by whatever film, gets that film: no other file, no network, nobody's process.

Each attempt is made twice: with nothing around the decoder, where it must succeed, else it shows nothing, and confined.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from sojourn.hardware.confine import confinement, decoder
from sojourn.hardware.confine.confinement import Confinement
from sojourn.hardware.confine.decoder import DecoderError
from sojourn.scoring.picture import recording
from sojourn.scoring.picture.recording import QUIET
from tests.processes import outliving
from tests.refusals import refusal

UNSAFE = ("-safe", "0")
KINDS = (Confinement.NAMESPACES, Confinement.LANDLOCK)


@pytest.fixture(params=KINDS)
def confined(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Confinement:
    """Each way to confine; skipped where a kernel does not have it."""
    if why := confinement.refusal(request.param):
        pytest.skip(why)
    monkeypatch.setenv(confinement.VARIABLE, request.param)
    confinement.confinement.cache_clear()
    request.addfinalizer(confinement.confinement.cache_clear)
    return Confinement(request.param)


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Undoes all confinement, for the half of a test that shows that the attempt is one."""

    def undo() -> None:
        monkeypatch.setenv(confinement.VARIABLE, Confinement.NONE)
        confinement.confinement.cache_clear()

    yield undo
    confinement.confinement.cache_clear()


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A second of film, which nobody but its owner may read."""
    file = tmp_path_factory.mktemp("outside") / "private.mp4"
    source = ["-f", "lavfi", "-i", "testsrc2=s=64x36:r=30:d=1", "-c:v", "libx264", "-pix_fmt", "yuv420p"]
    subprocess.run(["ffmpeg", "-v", "error", *source, str(file)], check=True)
    file.chmod(0o600)
    return file


@pytest.fixture
def port() -> Iterator[socket.socket]:
    """Somebody who listens on this host."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        listening.settimeout(0.2)
        yield listening


def address(listening: socket.socket) -> str:
    return f"127.0.0.1:{listening.getsockname()[1]}"


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)


def called(listening: socket.socket) -> bool:
    """Whether anybody connected to the port."""
    try:
        with closing(listening.accept()[0]):
            return True
    except TimeoutError:
        return False


def frames_of(given: Path, *asked: str, into: str = "-") -> int:
    """How many pictures ffmpeg, which is allowed everything, gets out of what it is given and asked."""
    with decoder.decoder("ffmpeg", [given]) as ready:
        words = [word.replace("FILM", ready.names[given]) for word in asked]
        command = [*ready.command, *QUIET, "-nostdin", "-y", *words, "-an", "-f", "framemd5", into]
        done = run(command)
    return sum(not line.startswith("#") for line in done.stdout.splitlines())


def read_by_others(film: Path, place: Path) -> dict[str, tuple[bytes, list[str]]]:
    """Films that name another, and what ffmpeg must be allowed to follow each."""
    playlist = f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nfile://{film}\n#EXT-X-ENDLIST\n".encode()
    anything = ["-protocol_whitelist", "file,crypto,data,subfile,concat,tcp,http"]
    return {
        "playlist": (playlist, [*anything, "-f", "hls", "-allowed_extensions", "ALL", "-i", "FILM"]),
        "list": (f"ffconcat version 1.0\nfile {film}\n".encode(), [*anything, "-f", "concat", *UNSAFE, "-i", "FILM"]),
        "part": (b"", [*anything, "-i", f"subfile,,start,0,end,0,,:{film}"]),
        "joined": (b"", [*anything, "-i", f"concat:{film}"]),
        "file": (b"", ["-i", f"file:{film}"]),
        "filter": (b"", ["-f", "lavfi", "-i", f"movie=filename={film}"]),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["playlist", "list", "part", "joined", "file", "filter"])
def test_no_film_shows_another(
    film: Path, tmp_path: Path, name: str, confined: Confinement, free: Callable[[], None]
) -> None:
    """Even by an ffmpeg that is allowed every format, protocol and path, as one is that a film has taken over."""
    content, asked = read_by_others(film, tmp_path)[name]
    (given := tmp_path / "given.mp4").write_bytes(content)
    assert frames_of(given, *asked) == 0
    assert frames_of(film, "-i", "FILM") == 30
    free()
    assert frames_of(given, *asked) == 30


@pytest.mark.parametrize("suffix", [".a=b", ".mp4=", ""])
def test_a_film_may_be_called_anything(film: Path, tmp_path: Path, suffix: str, confined: Confinement) -> None:
    (given := tmp_path / f"film{suffix}").write_bytes(film.read_bytes())
    assert frames_of(given, "-i", "FILM") == 30


def test_no_decoder_leaves_a_file_that_takes_for_ever_to_read(tmp_path: Path, confined: Confinement) -> None:
    (film := tmp_path / "film.mp4").touch()
    with decoder.decoder("truncate", [film], [tmp_path / "out.mp4"]) as ready:
        done = run([*ready.command, "--size=3T", ready.names[tmp_path / "out.mp4"]])
    assert (done.returncode and not (out := tmp_path / "out.mp4").exists()) or out.stat().st_size == 0


@pytest.mark.parametrize("what", ["tcp://{}", "http://{}/film.mp4", "udp://{}", "rtmp://{}/live"])
def test_no_film_calls_anybody(
    film: Path, port: socket.socket, what: str, confined: Confinement, free: Callable[[], None]
) -> None:
    asked = ["-rw_timeout", "500000", "-i", what.format(address(port))]
    frames_of(film, *asked)
    assert not called(port)
    if not what.startswith("udp"):  # which no one answers; below it is shown to have no way
        free()
        frames_of(film, *asked)
        assert called(port)


def test_no_film_writes_elsewhere(film: Path, tmp_path: Path, confined: Confinement, free: Callable[[], None]) -> None:
    tmp_path.chmod(0o777)
    for above in tmp_path.parents[:2]:
        above.chmod(above.stat().st_mode | 0o011)
    frames_of(film, "-i", "FILM", into=str(tmp_path / "written"))
    assert not (tmp_path / "written").exists()
    free()
    frames_of(film, "-i", "FILM", into=str(tmp_path / "written"))
    assert (tmp_path / "written").exists()


#: Of this process alone: another may run the same test.
CANARY = Path(f"/tmp/sojourn-decoder-was-here-{os.getpid()}")
#: What a program tries that a film has taken over: each line of what it prints is a wall that it came through.
ATTACK = r"""
exec 2>/dev/null
cat SECRET && echo; head -c1 /etc/passwd && echo; ls /root /home /tmp FOLDER
echo x > FOLDER/new && echo wrote; echo x > CANARY && echo wrote to /tmp
echo x >> FILM && echo changed the film
(exec 3<>/dev/tcp/HOST/PORT) && echo connected
kill -0 PARENT && echo may signal its starter
for pid in /proc/[0-9]*; do head -c 9 $pid/environ && echo of $pid; done
head -c 9 /proc/PARENT/environ && echo of the starter
unshare --user true && echo namespaces; mount -t tmpfs none /mnt && echo mounted
chroot / true && echo chroot
for fd in 3 4 5 6 7 8 9; do ( : <&$fd ) && readlink /proc/self/fd/$fd | grep -v FILM; done
"""


def attack(film: Path, folder: Path, port: socket.socket) -> str:
    with decoder.decoder("bash", [film]) as ready:
        host, number = address(port).split(":")
        words = {
            "CANARY": CANARY,
            "SECRET": folder / "secret",
            "FOLDER": folder,
            "FILM": ready.names[film],
            "HOST": host,
            "PORT": number,
        }
        script = ATTACK.replace("PARENT", str(os.getpid()))
        for word, text in words.items():
            script = script.replace(word, str(text))
        done = run([*ready.command, "--norc", "-c", script])
    # Without a root of its own it has what it may read as descriptors.
    shown = {*map(str, confinement.SYSTEM), *(str(path.resolve()) for path in confinement.SYSTEM), str(film)}
    return "".join(f"{line}\n" for line in done.stdout.splitlines() if line not in shown)


def test_who_takes_a_decoder_over_gets_nothing_of_the_host(
    film: Path, tmp_path: Path, port: socket.socket, confined: Confinement, free: Callable[[], None]
) -> None:
    (folder := tmp_path / "of-the-host").mkdir(0o777)
    (folder / "secret").write_text("the secret")
    (given := tmp_path / "film.mp4").write_bytes(film.read_bytes())
    assert attack(given, folder, port) == ""
    assert not called(port) and given.read_bytes() == film.read_bytes() and [*folder.iterdir()] == [folder / "secret"]
    assert not CANARY.exists()
    free()
    through = attack(given, folder, port)
    CANARY.unlink()
    assert {"the secret", "wrote", "wrote to /tmp", "changed the film", "connected"} <= {*through.splitlines()}
    assert "may signal its starter" in through and "of the starter" in through and called(port)


@pytest.mark.skipif(os.geteuid() != 0, reason="who is no root stays who they are")
def test_a_roots_decoder_is_somebody_else(film: Path, confined: Confinement) -> None:
    with (
        decoder.decoder("cat", [film]) as ready,
        subprocess.Popen([*ready.command], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as waiting,
    ):
        assert waiting.stdin and waiting.stdout
        waiting.stdin.write(b"x")
        waiting.stdin.flush()
        assert waiting.stdout.read(1) == b"x"  # it has begun
        launched = psutil.Process(waiting.pid)
        cat = next(process for process in (*launched.children(recursive=True), launched) if process.name() == "cat")
        assert {*cat.uids(), *cat.gids()} == {confinement.DECODER_UID}
        waiting.stdin.close()


def test_its_limits_hold_and_it_says_nothing_of_its_own(film: Path, confined: Confinement) -> None:
    with decoder.decoder("bash", [film]) as ready:
        done = run([*ready.command, "--norc", "-c", "ulimit -v; ulimit -t; ulimit -c"])
    assert (done.stdout.split(), done.stderr) == ([str(4 << 20), str(4 * 3600), "0"], "")
    with decoder.decoder("ffmpeg", [film]) as ready:
        done = run([*ready.command, *QUIET, "-i", ready.names[film], "-f", "null", "-"])
    assert (done.returncode, done.stderr) == (0, "")


def test_what_it_writes_is_put_in_its_place_and_is_its_owners(
    film: Path, tmp_path: Path, confined: Confinement
) -> None:
    made = tmp_path / "a film, of 1 s:[x]%d.mkv"
    with decoder.decoder("ffmpeg", [film], [made]) as ready:
        command = [*ready.command, *QUIET, "-i", ready.names[film], "-c", "copy", f"file:{ready.names[made]}"]
        subprocess.run(command, check=True)
    assert made.stat().st_uid == os.geteuid() and [*tmp_path.iterdir()] == [made]
    assert len(recording.frame_times(made)) == 30


def test_a_link_that_it_leaves_is_no_file(film: Path, tmp_path: Path, confined: Confinement) -> None:
    (secret := tmp_path / "secret").write_text("the secret")
    made = tmp_path / "film.mkv"
    with (
        refusal(confinement.ConfinementError, "not-a-file", " film.mkv: "),
        decoder.decoder("ln", [film], [made]) as ready,
    ):
        subprocess.run([*ready.command, "-s", str(secret), ready.names[made]], check=True)
    assert {*tmp_path.iterdir()} == {secret}


def test_nothing_is_left_of_a_decoder_that_is_killed(film: Path, tmp_path: Path, confined: Confinement) -> None:
    before, seconds = {*film.parent.iterdir()}, f"3141.{os.getpid()}"  # another process may run the same test
    with decoder.decoder("sleep", [film]) as ready:
        sleeping = subprocess.Popen([*ready.command, seconds])
        sleeping.kill()
        sleeping.wait()
    assert not outliving(it for it in psutil.process_iter(["cmdline"]) if seconds in (it.info["cmdline"] or ()))
    assert {*film.parent.iterdir()} == before


def test_a_strangers_film_is_refused_where_nothing_confines_and_our_own_is_read(
    film: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel with neither namespaces nor Landlock: the launcher is asked, and says no to each."""
    monkeypatch.delenv(confinement.VARIABLE, raising=False)
    monkeypatch.setattr(confinement, "refusal", lambda kind: "not permitted")
    confinement.confinement.cache_clear()
    try:
        with refusal(DecoderError, "unsupported", "private.mp4: ") as refused:
            recording.picture_size(film)
        assert "\n" not in str(refused.value) and "SOJOURN_CONFINEMENT=none" in str(refused.value)
        with decoder.trusted_files():
            assert recording.picture_size(film) == (64, 36)
    finally:
        confinement.confinement.cache_clear()
