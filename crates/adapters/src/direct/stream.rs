//! The body of a request: a stream of parcels, or nothing.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use tokio::sync::oneshot;

use super::outgoing::Outgoing;

/// The body of a request to another node.
#[derive(Debug)]
pub(super) enum RequestBody {
    /// No body.
    Empty,
    /// Parcels, once the receiver has accepted the stream: parcels that were sent before a
    /// rejection would be lost.
    Waiting(oneshot::Receiver<()>, Arc<Outgoing>),
    /// Parcels.
    Parcels(Arc<Outgoing>),
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Self::Waiting(accepted, outgoing) = &mut *self {
            let is_accepted = ready!(Pin::new(accepted).poll(context)).is_ok();
            let outgoing = Arc::clone(outgoing);
            *self = if is_accepted { Self::Parcels(outgoing) } else { Self::Empty };
        }
        match &*self {
            Self::Parcels(outgoing) => {
                outgoing.poll_piece(context).map(|piece| Some(Ok(Frame::data(piece))))
            }
            Self::Empty | Self::Waiting(..) => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Empty)
    }
}
