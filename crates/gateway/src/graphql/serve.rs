//! The upgrade and the serving of GraphQL sockets.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use heartline_protocol::limits::FRAGMENTS_MAX;
use heartline_protocol::{CloseReason, Token};
use heartline_routing::LeaseKind;
use http::{Response, request};
use tracing::{debug, info};

use super::connection::{Admitted, GraphQlConnection};
use super::conversation::GraphQlClose;
use super::{GraphQl, SUBPROTOCOL};
use crate::accept::Ticket;
use crate::gateway::Gateway;
use crate::handle::Handle;
use crate::metrics::ReasonLabel;
use crate::outbox::Outbox;
use crate::pressure::Bounds;
use crate::refusal::Refusal;
use crate::transport::Transport;
use crate::websocket::{FrameReader, ReaderLimits, Upgrade};

/// The most bytes of one result, far above a full queue (`QUEUE_BYTES_MAX` of party sessions).
const RESULT_BYTES_MAX: usize = 32 * 1024 * 1024;

/// A GraphQL upgrade that was granted.
#[derive(Debug)]
pub struct AcceptedGraphQl {
    ticket: Ticket,
    is_acceptable: bool,
}

impl Gateway {
    /// Decides about the upgrade of a GraphQL socket. Its token comes later, in `connection_init`.
    ///
    /// # Errors
    /// The response to a refused upgrade.
    pub fn upgrade_graphql(
        &self,
        request: &request::Parts,
        peer: SocketAddr,
    ) -> Result<(Response<()>, AcceptedGraphQl), Refusal> {
        let granted = Upgrade::of(request, SUBPROTOCOL).and_then(|upgrade| {
            let ticket = self.ticket(request, peer)?;
            let is_acceptable = upgrade.subprotocol;
            Ok((upgrade.response(SUBPROTOCOL), AcceptedGraphQl { ticket, is_acceptable }))
        });
        if let Err(refusal) = &granted {
            let reason = refusal.code.as_str();
            self.metrics.refused.get_or_create(&ReasonLabel { reason }).inc();
            debug!(%peer, reason, message = refusal.message, "upgrade refused");
        }
        granted
    }

    /// Runs an upgraded GraphQL socket until it ends.
    pub async fn serve_graphql(
        self: Arc<Self>,
        service: Arc<dyn GraphQl>,
        accepted: AcceptedGraphQl,
        transport: Transport,
        early: Vec<u8>,
    ) {
        let AcceptedGraphQl { ticket, is_acceptable } = accepted;
        let limits = &self.config.limits;
        let bounds = Bounds {
            messages: limits.outbox_messages,
            bytes: RESULT_BYTES_MAX,
            grace: limits.slow_grace,
        };
        let frames_sent = self.metrics.frames_sent.clone();
        let outbox = Outbox::new(bounds, Arc::clone(&self.budget), frames_sent);
        let handle = Arc::new(Handle::new(outbox, None, self.clock.now(), LeaseKind::Party));
        let listing = self.hub.list_guest(self.random.draw(), Arc::clone(&handle));
        if self.is_draining() {
            handle.stop(CloseReason::ServerShutdown);
        }
        let message_bytes = self.config.graphql.message_bytes;
        let mut reader = FrameReader::new(ReaderLimits { message_bytes, fragments: FRAGMENTS_MAX });
        reader.feed(&early);
        let gateway = Arc::clone(&self);
        let mut connection =
            GraphQlConnection::new(gateway, service, transport, reader, handle, listing);
        let ended = if is_acceptable {
            connection.run().await
        } else {
            connection.refuse(&GraphQlClose::not_acceptable())
        };
        let departure = connection.caller.take().map(|caller| caller.close());
        if let Some(identity) = connection.handle.identity() {
            self.release_lease(&identity.key, ended).await;
        }
        let farewell = connection.finish(ended);
        match departure {
            Some(departure) => drop(tokio::join!(departure, farewell)),
            None => farewell.await,
        }
        self.log_graphql(&connection, &ticket, ended.as_str());
    }

    fn log_graphql(&self, connection: &GraphQlConnection, ticket: &Ticket, reason: &'static str) {
        let handle = &connection.handle;
        let tally = handle.outbox.tally();
        self.metrics.disconnected(reason);
        let identity = handle.identity();
        info!(
            connection_id = identity.map(|i| tracing::field::display(i.key.connection_id)),
            user_id = identity.map(|i| i.key.user_id.as_str()),
            kind = "party",
            node = %self.node_id,
            address = %ticket.address,
            client = ticket.client.as_deref(),
            reason,
            duration_ms = handle.age(self.clock.now()).as_millis() as u64,
            frames_received = connection.frames_received,
            frames_sent = tally.frames_written,
            "disconnected"
        );
    }

    /// Verifies the token of a `connection_init`, and registers the lease of its user.
    pub(super) async fn admit_graphql(
        &self,
        service: &dyn GraphQl,
        token: Option<String>,
        age: Duration,
    ) -> Result<Admitted, CloseReason> {
        let config = &self.config.graphql;
        let anonymous =
            || Admitted { identity: None, expires_at: None, caller: service.open(None) };
        let Some(token) = token else {
            return if config.require_auth {
                Err(CloseReason::Unauthorized)
            } else {
                Ok(anonymous())
            };
        };
        let claims = match self.verify(&Token(token)).await {
            Ok(claims) => claims,
            Err(_) if config.bad_token_is_anonymous && !config.require_auth => {
                return Ok(anonymous());
            }
            Err(_) => return Err(CloseReason::Unauthorized),
        };
        let account = claims.user_id.clone();
        let admission = self.admit(claims, None, age, LeaseKind::Party).await;
        let (admitted, identity) = admission.map_err(|refused| refused.reason())?;
        let lifetime = admitted.expires_at.unix_ms.saturating_sub(self.clock.wall().unix_ms);
        Ok(Admitted {
            identity: Some(identity),
            expires_at: Some(self.clock.now() + Duration::from_millis(lifetime)),
            caller: service.open(Some(account)),
        })
    }
}
