# SPDX-License-Identifier: Apache-2.0
"""A room that a browser joins as it would one of Jitsi Meet: the same selectors, config from the fragment, a lobby."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

from sojourn.apps.standins.call.signalling import Room

# The own picture comes first in the document, what comes is shown twice, and a second connection rests, as there.
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Room</title>
<style>html, body { margin: 0; height: 100%; background: #111; color: #fff; overflow: hidden }
 #largeVideo { position: absolute; left: 40px; top: 60px; width: 70%; height: 60% } .thumb { width: 160px }
 .new-toolbox { position: fixed; bottom: 0; width: 100%; background: #333 }</style>
<div id="react"><div id="videoconference_page">
  <div data-testid="prejoin.screen" hidden>
    <input id="premeeting-name-input" placeholder="Enter your name">
    <div role="button" data-testid="prejoin.joinMeeting" tabindex="0">Join meeting</div>
  </div>
  <div class="lobby-screen" hidden>You'll join the meeting as soon as someone accepts your request</div>
  <div id="videospace" hidden>
    <div id="filmstripLocalVideo"><video class="thumb" id="localVideo" muted autoplay></video></div>
    <div id="largeVideoContainer"><div id="largeVideoWrapper"><video id="largeVideo" muted autoplay></video></div></div>
    <div id="filmstripRemoteVideos"><video class="thumb" id="remoteVideo" muted autoplay></video></div>
    <div class="new-toolbox">
      <div role="button" class="hangup-button" aria-label="Leave the meeting">Leave</div></div>
  </div>
  <div class="notification" hidden></div>
</div></div>
<script>(() => {
  const part = (selector) => document.querySelector(selector);
  const pairs = location.hash.slice(1).split('&').filter(Boolean).map((pair) => pair.split('='));
  const config = Object.fromEntries(pairs.map(([key, value]) => [key, JSON.parse(decodeURIComponent(value))]));
  const query = new URLSearchParams(location.search);
  window.joinedAs = null;

  async function join(name) {
    window.joinedAs = name;
    part('[data-testid="prejoin.screen"]').hidden = true;
    if (query.has('lobby')) return (part('.lobby-screen').hidden = false);
    part('#videospace').hidden = false;
    const camera = await navigator.mediaDevices.getUserMedia({ video: { width: 1280, height: 720 } });
    part('#localVideo').srcObject = camera;
    new RTCPeerConnection().createDataChannel('the connection that rests');
    const peer = new RTCPeerConnection();
    peer.ontrack = ({ streams: [stream] }) => {
      part('#largeVideo').srcObject = part('#remoteVideo').srcObject = stream;
    };
    camera.getTracks().forEach((track) => peer.addTrack(track, camera));
    const room = new WebSocket(`ws://${location.host}/room`);
    const describe = async () => {
      await peer.setLocalDescription();
      room.send(JSON.stringify({ description: peer.localDescription }));
    };
    peer.onicecandidate = ({ candidate }) => { if (candidate) room.send(JSON.stringify({ candidate })); };
    let heard = Promise.resolve();
    room.onmessage = ({ data }) => {
      const { call, description, candidate } = JSON.parse(data);
      heard = heard.then(async () => {
        if (call) await describe();
        if (candidate) await peer.addIceCandidate(candidate);
        if (!description) return;
        await peer.setRemoteDescription(description);
        if (description.type === 'offer') await describe();
      });
    };
    window.kick = () => {
      peer.close();
      room.close();
      part('#videospace').remove();
      part('.notification').textContent = 'Ann removed you from the meeting';
      part('.notification').hidden = false;
    };
  }

  if (config['config.prejoinConfig.enabled'] === false && !query.has('stubborn')) join(config['userInfo.displayName']);
  else part('[data-testid="prejoin.screen"]').hidden = false;
  const name = part('#premeeting-name-input');
  part('[data-testid="prejoin.joinMeeting"]').onclick = ({ isTrusted }) => isTrusted && name.value && join(name.value);
})();</script></html>"""


async def _page(_: web.Request) -> web.Response:
    return web.Response(text=PAGE, content_type="text/html")


@contextmanager
def jitsi_room(host: str = "127.0.0.1") -> Iterator[str]:
    """Serve the room at this address of ours until the block ends; gives its URL."""
    app = web.Application()
    app.router.add_get("/room", Room().enter)
    app.router.add_get("/Sojourn", _page)
    runner = web.AppRunner(app, shutdown_timeout=0.1)

    async def listen() -> int:
        await runner.setup()
        await web.TCPSite(runner, host, 0).start()
        return int(runner.addresses[0][1])

    # A thread of its own: Playwright has a loop in that of the tests.
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        port = asyncio.run_coroutine_threadsafe(listen(), loop).result(10)
        yield f"http://{host}:{port}/Sojourn"
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
