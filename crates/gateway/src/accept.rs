//! The upgrade, authentication and admission of a connection.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use heartline_protocol::{
    CloseReason, ConnectionId, DeviceId, ErrorCode, SUBPROTOCOL, Timestamp, Token,
};
use heartline_routing::renewal::close_replaced;
use heartline_routing::{
    DirectoryError, Lease, LeaseKey, LeaseKind, Refusal as LeaseRefusal, Registration, shard_of,
};
use heartline_runtime::Random;
use http::header::USER_AGENT;
use http::{Response, request};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::{debug, warn};
use ulid::Ulid;

use crate::addresses::{AddressPermit, client_address};
use crate::gateway::Gateway;
use crate::handle::Identity;
use crate::metrics::ReasonLabel;
use crate::origin::origin_is_allowed;
use crate::refusal::Refusal;
use crate::session::Admitted;
use crate::websocket::Upgrade;
use heartline_auth::{AuthError, Claims};

/// The pause that a refused client is asked to make.
const RETRY_AFTER_SECONDS: u64 = 5;

/// A granted upgrade: pass it to [`Gateway::serve`] with the socket, or to [`Gateway::abandon`] if
/// there is none.
#[derive(Debug)]
pub struct Accepted {
    pub(crate) ticket: Ticket,
    pub(crate) device_id: Option<DeviceId>,
    pub(crate) admitted: Option<(Admitted, Identity)>,
    /// The start of the socket's age, both in the directory and here.
    pub(crate) opened_at: Instant,
}

/// The client's address and name for log lines, and its permit among those of the address.
#[derive(Debug)]
pub(crate) struct Ticket {
    _permit: AddressPermit,
    pub(crate) address: std::net::IpAddr,
    pub(crate) client: Option<Box<str>>,
}

impl Gateway {
    /// Stop 1 of the life of a message: admitted. Decides about an upgrade request. If it carries a
    /// token, the token is verified and the connection registered before the response.
    pub async fn upgrade(
        &self,
        request: &request::Parts,
        peer: SocketAddr,
    ) -> Result<(Response<()>, Accepted), Refusal> {
        let granted = self.grant(request, peer).await;
        match &granted {
            Ok(_) => tracing::trace!(target: "heartline::life", message_stop = 1, "admitted"),
            Err(refusal) => {
                let reason = refusal.code.as_str();
                self.metrics.refused.get_or_create(&ReasonLabel { reason }).inc();
                debug!(%peer, reason, message = refusal.message, "upgrade refused");
            }
        }
        granted
    }

    async fn grant(
        &self,
        request: &request::Parts,
        peer: SocketAddr,
    ) -> Result<(Response<()>, Accepted), Refusal> {
        let upgrade = Upgrade::from_request(request)?;
        let ticket = self.ticket(request, peer)?;
        let opened_at = self.clock.now();
        let mut accepted =
            Accepted { ticket, device_id: upgrade.device_id.clone(), admitted: None, opened_at };
        if let Some(token) = &upgrade.token {
            let claims = self.verify(token).await?;
            accepted.opened_at = self.clock.now();
            let admission = self
                .admit(claims, upgrade.device_id.clone(), Duration::ZERO, LeaseKind::Chat)
                .await;
            accepted.admitted = Some(admission.map_err(NotAdmitted::refusal)?);
        }
        Ok((upgrade.response(SUBPROTOCOL), accepted))
    }

    /// The checks that every socket must pass, of either protocol.
    pub(crate) fn ticket(
        &self,
        request: &request::Parts,
        peer: SocketAddr,
    ) -> Result<Ticket, Refusal> {
        if !origin_is_allowed(&request.headers, &self.config.allowed_origins) {
            let message = "this Origin is not allowed: add it to server.allowed_origins";
            return Err(Refusal::new(ErrorCode::Forbidden, message));
        }
        self.check_capacity()?;
        let address = client_address(peer.ip(), &request.headers, &self.config.trusted_proxies);
        let permit = self
            .addresses
            .acquire(address, self.config.limits.connections_per_address)
            .ok_or_else(|| {
                let message = "too many connections from this address";
                Refusal::later(ErrorCode::RateLimited, message, RETRY_AFTER_SECONDS)
            })?;
        Ok(Ticket { _permit: permit, address, client: client_name(request) })
    }

    fn check_capacity(&self) -> Result<(), Refusal> {
        if self.is_draining() {
            let message = "this node is shutting down";
            return Err(Refusal::later(ErrorCode::ServiceUnavailable, message, 1));
        }
        if self.budget.used() > self.budget.refuse_above() {
            let message = "this node is out of outbox memory";
            return Err(Refusal::later(ErrorCode::ServerBusy, message, RETRY_AFTER_SECONDS));
        }
        Ok(())
    }

    /// Verifies a token; counts and logs a refusal.
    pub async fn verify(&self, token: &Token) -> Result<Claims, AuthError> {
        let verified = self.authenticator.verify(&token.0).await;
        if let Err(error) = &verified {
            self.metrics.auth_failures.inc();
            debug!(%error, "token refused");
        }
        verified
    }

    /// Registers a connection, and closes the connections that it replaces.
    pub(crate) async fn admit(
        &self,
        claims: Claims,
        device_id: Option<DeviceId>,
        age: Duration,
        kind: LeaseKind,
    ) -> Result<(Admitted, Identity), NotAdmitted> {
        let user_id = claims.user_id;
        let device_id =
            claims.device_id.or(device_id).unwrap_or_else(|| new_device_id(self.random));
        let shard = shard_of(&user_id, self.config.shards);
        let ulid = Ulid::from_parts(self.clock.wall().unix_ms, self.random.draw());
        let key = LeaseKey {
            user_id: user_id.clone(),
            node_id: self.node_id.clone(),
            connection_id: ConnectionId { ulid, shard },
        };
        let lease =
            Lease { key: key.clone(), device_id: device_id.clone(), kind, age, again: false };
        let is_leased = match self.register(lease).await {
            Ok(Registration::Admitted { .. }) => true,
            Ok(Registration::Refused(LeaseRefusal::ConnectionLimit)) => {
                return Err(NotAdmitted::Limit);
            }
            Ok(Registration::Refused(LeaseRefusal::Replaced)) => {
                return Err(NotAdmitted::Replaced);
            }
            Err(error) if self.config.accepts_unleased => {
                debug!(error = &error as &dyn Error, "connection accepted without a lease");
                self.metrics.connections_unleased.inc();
                false
            }
            Err(error) => {
                warn!(error = &error as &dyn Error, "registering a connection failed");
                return Err(NotAdmitted::Unavailable(error));
            }
        };
        let identity = Identity { key, device_id: device_id.clone(), is_leased };
        Ok((Admitted { user_id, device_id, expires_at: claims.expires_at }, identity))
    }

    /// Registers a connection in a task of its own. If the caller is dropped, for example because
    /// its client has disconnected, the task unregisters the lease.
    async fn register(&self, lease: Lease) -> Result<Registration, DirectoryError> {
        let (leases, link) = (Arc::clone(&self.leases), Arc::clone(&self.link));
        let policy = self.config.policy();
        let (answer, registered) = oneshot::channel();
        self.tasks.spawn("registration", async move {
            let key = lease.key.clone();
            let mut registration = leases.register(lease, policy).await;
            let is_leased = matches!(registration, Ok(Registration::Admitted { .. }));
            if let Ok(Registration::Admitted { replaced }) = &mut registration {
                close_replaced(&*link, std::mem::take(replaced)).await;
            }
            if answer.send(registration).is_err() && is_leased {
                let _ = leases.unregister(&key, policy.offline_linger).await;
            }
        });
        registered
            .await
            .unwrap_or_else(|_| Err(DirectoryError("the registration task panicked".into())))
    }

    /// Unregisters a connection whose upgrade was granted and never completed.
    pub async fn abandon(&self, accepted: Accepted) {
        if let Some((_, identity)) = accepted.admitted {
            // A failure is logged there, and the lease expires.
            let _ = self.unregister(&identity.key, self.config.offline_linger).await;
        }
    }

    /// Unregisters a lease, and returns the result of the directory.
    pub(crate) async fn unregister(
        &self,
        key: &LeaseKey,
        keep: Duration,
    ) -> Result<Option<Timestamp>, DirectoryError> {
        let given_back = self.leases.unregister(key, keep).await;
        if let Err(error) = &given_back {
            // The lease expires, because no task renews it.
            let (error, connection_id) = (error as &dyn Error, key.connection_id);
            warn!(error, %connection_id, "unregistering a lease failed");
        }
        given_back
    }
}

/// Why a connection was not admitted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotAdmitted {
    #[error("the user has too many connections")]
    Limit,
    #[error("a newer connection of this device is open")]
    Replaced,
    #[error("the directory did not register the connection")]
    Unavailable(#[source] DirectoryError),
}

impl NotAdmitted {
    /// The HTTP response to the upgrade.
    fn refusal(self) -> Refusal {
        match self {
            Self::Limit => {
                let message = "this user has too many connections";
                Refusal::later(ErrorCode::RateLimited, message, RETRY_AFTER_SECONDS)
            }
            Self::Replaced => {
                Refusal::new(ErrorCode::Conflict, "a newer connection of this device is open")
            }
            Self::Unavailable(_) => {
                let message = "connections cannot be registered at the moment";
                Refusal::later(ErrorCode::ServiceUnavailable, message, RETRY_AFTER_SECONDS)
            }
        }
    }

    /// The closing reason after a challenge.
    pub(crate) fn reason(&self) -> CloseReason {
        match self {
            Self::Limit => CloseReason::ConnectionLimit,
            Self::Replaced => CloseReason::SessionReplaced,
            Self::Unavailable(_) => CloseReason::Overloaded,
        }
    }
}

/// A new device id for a client that sent none, so that it replaces no connection.
fn new_device_id(random: Random) -> DeviceId {
    let text = format!("made-{}", Ulid(random.draw()));
    text.parse().expect("a generated device id is legal")
}

/// The client's name and version, shortened and without control characters, for log lines.
fn client_name(request: &request::Parts) -> Option<Box<str>> {
    const CHARACTERS_MAX: usize = 64;
    let name = request.headers.get(USER_AGENT)?.to_str().ok()?;
    Some(name.chars().filter(|character| !character.is_control()).take(CHARACTERS_MAX).collect())
}
