// SPDX-License-Identifier: Apache-2.0
//! A noq connection and its streams as the transport that the crate h3 requires.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{ready, Context, Poll},
};

use bytes::{Buf, Bytes};
use h3::{
    error::Code,
    quic::{self, ConnectionErrorIncoming, StreamErrorIncoming, StreamId, WriteBuf},
};
use noq::{Connection, ConnectionError, ReadError, RecvStream, SendStream, VarInt, WriteError};

type Awaited<T> = Option<Pin<Box<dyn Future<Output = Result<T, ConnectionError>>>>>;

/// The bytes that a stream takes at once of what a client sends: requests are small.
const READ: usize = 4 << 10;

pub struct QuicConnection {
    connection: Connection,
    accepted_bidi: Awaited<(SendStream, RecvStream)>,
    accepted_uni: Awaited<RecvStream>,
    opened_bidi: Awaited<(SendStream, RecvStream)>,
    opened_uni: Awaited<SendStream>,
}

impl QuicConnection {
    pub fn new(connection: Connection) -> QuicConnection {
        QuicConnection { connection, accepted_bidi: None, accepted_uni: None, opened_bidi: None, opened_uni: None }
    }
}

/// Polls what is awaited, which `begin` makes if nothing is.
fn poll<T, F>(
    awaited: &mut Awaited<T>,
    connection: &Connection,
    begin: fn(Connection) -> F,
    context: &mut Context<'_>,
) -> Poll<Result<T, ConnectionError>>
where
    F: Future<Output = Result<T, ConnectionError>> + 'static,
{
    let future = awaited.get_or_insert_with(|| Box::pin(begin(connection.clone())));
    let result = ready!(future.as_mut().poll(context));
    *awaited = None;
    Poll::Ready(result)
}

impl quic::Connection<Bytes> for QuicConnection {
    type RecvStream = Receiving;
    type OpenStreams = QuicConnection;

    fn poll_accept_recv(&mut self, context: &mut Context<'_>) -> Poll<Result<Receiving, ConnectionErrorIncoming>> {
        poll(&mut self.accepted_uni, &self.connection, |it| async move { it.accept_uni().await }, context)
            .map_ok(Receiving)
            .map_err(ended)
    }

    fn poll_accept_bidi(&mut self, context: &mut Context<'_>) -> Poll<Result<Both, ConnectionErrorIncoming>> {
        poll(&mut self.accepted_bidi, &self.connection, |it| async move { it.accept_bi().await }, context)
            .map_ok(Both::of)
            .map_err(ended)
    }

    fn opener(&self) -> QuicConnection {
        QuicConnection::new(self.connection.clone())
    }
}

impl quic::OpenStreams<Bytes> for QuicConnection {
    type BidiStream = Both;
    type SendStream = Sending;

    fn poll_open_bidi(&mut self, context: &mut Context<'_>) -> Poll<Result<Both, StreamErrorIncoming>> {
        poll(&mut self.opened_bidi, &self.connection, |it| async move { it.open_bi().await }, context)
            .map_ok(Both::of)
            .map_err(with_connection)
    }

    fn poll_open_send(&mut self, context: &mut Context<'_>) -> Poll<Result<Sending, StreamErrorIncoming>> {
        poll(&mut self.opened_uni, &self.connection, |it| async move { it.open_uni().await }, context)
            .map_ok(Sending::of)
            .map_err(with_connection)
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        self.connection.close(number(code.value()), reason);
    }
}

pub struct Receiving(RecvStream);

impl quic::RecvStream for Receiving {
    type Buf = Bytes;

    fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        let mut block = [0; READ];
        let read = ready!(self.0.poll_read(context, &mut block)).map_err(|error| match error {
            ReadError::Reset(code) => StreamErrorIncoming::StreamTerminated { error_code: code.into_inner() },
            ReadError::ConnectionLost(error) => with_connection(error),
            other => StreamErrorIncoming::Unknown(Box::new(other)),
        })?;
        Poll::Ready(Ok((read > 0).then(|| Bytes::copy_from_slice(&block[..read]))))
    }

    fn stop_sending(&mut self, code: u64) {
        let _ = self.0.stop(number(code)); // fails for a stream that has ended
    }

    fn recv_id(&self) -> StreamId {
        VarInt::from(self.0.id()).into_inner().try_into().expect("an id of QUIC")
    }
}

pub struct Sending {
    stream: SendStream,
    unsent: Option<WriteBuf<Bytes>>,
}

impl Sending {
    fn of(stream: SendStream) -> Sending {
        Sending { stream, unsent: None }
    }
}

impl quic::SendStream<Bytes> for Sending {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        while let Some(data) = self.unsent.as_mut().filter(|it| it.has_remaining()) {
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, data.chunk())).map_err(unwritten)?;
            data.advance(written);
        }
        self.unsent = None;
        Poll::Ready(Ok(()))
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        if self.unsent.is_some() {
            let connection_error = ConnectionErrorIncoming::InternalError("sent before it was ready".to_owned());
            return Err(StreamErrorIncoming::ConnectionErrorIncoming { connection_error });
        }
        self.unsent = Some(data.into());
        Ok(())
    }

    fn poll_finish(&mut self, _: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        Poll::Ready(self.stream.finish().map_err(|error| StreamErrorIncoming::Unknown(Box::new(error))))
    }

    fn reset(&mut self, code: u64) {
        let _ = self.stream.reset(number(code)); // fails for a stream that has ended
    }

    fn send_id(&self) -> StreamId {
        VarInt::from(self.stream.id()).into_inner().try_into().expect("an id of QUIC")
    }
}

/// A bidirectional stream.
pub struct Both {
    sending: Sending,
    receiving: Receiving,
}

impl Both {
    fn of((sending, receiving): (SendStream, RecvStream)) -> Both {
        Both { sending: Sending::of(sending), receiving: Receiving(receiving) }
    }
}

impl quic::RecvStream for Both {
    type Buf = Bytes;

    fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        self.receiving.poll_data(context)
    }

    fn stop_sending(&mut self, code: u64) {
        self.receiving.stop_sending(code);
    }

    fn recv_id(&self) -> StreamId {
        self.receiving.recv_id()
    }
}

impl quic::SendStream<Bytes> for Both {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.sending.poll_ready(context)
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        self.sending.send_data(data)
    }

    fn poll_finish(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.sending.poll_finish(context)
    }

    fn reset(&mut self, code: u64) {
        self.sending.reset(code);
    }

    fn send_id(&self) -> StreamId {
        self.sending.send_id()
    }
}

fn number(code: u64) -> VarInt {
    VarInt::from_u64(code).unwrap_or(VarInt::MAX)
}

fn ended(error: ConnectionError) -> ConnectionErrorIncoming {
    match error {
        ConnectionError::ApplicationClosed(close) => {
            ConnectionErrorIncoming::ApplicationClose { error_code: close.error_code.into_inner() }
        }
        ConnectionError::TimedOut => ConnectionErrorIncoming::Timeout,
        other => ConnectionErrorIncoming::Undefined(Arc::new(other)),
    }
}

fn with_connection(error: ConnectionError) -> StreamErrorIncoming {
    StreamErrorIncoming::ConnectionErrorIncoming { connection_error: ended(error) }
}

fn unwritten(error: WriteError) -> StreamErrorIncoming {
    match error {
        WriteError::Stopped(code) => StreamErrorIncoming::StreamTerminated { error_code: code.into_inner() },
        WriteError::ConnectionLost(error) => with_connection(error),
        other => StreamErrorIncoming::Unknown(Box::new(other)),
    }
}
