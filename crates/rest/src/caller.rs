//! The caller of a request, from its token.

use axum::extract::FromRequestParts;
use heartline_auth::Claims;
use heartline_durability::Actor;
use heartline_gateway::Refusal;
use heartline_gateway::websocket::bearer;
use heartline_protocol::{ErrorCode, UserId};
use http::request::Parts;

use super::{Refused, Shared};

/// A caller with a valid token.
#[derive(Debug)]
pub(super) struct Caller {
    /// The token's `sub`.
    pub(super) user_id: UserId,
    /// Whether it is the application's back end, which may act for all users.
    pub(super) is_service: bool,
}

impl Caller {
    /// The actor of the caller's changes of chats.
    pub(super) fn actor(&self) -> Actor {
        if self.is_service { Actor::Service } else { Actor::User(self.user_id.clone()) }
    }

    /// The user who must be a member to see a chat; none for the application's back end.
    pub(super) fn viewer(&self) -> Option<&UserId> {
        (!self.is_service).then_some(&self.user_id)
    }
}

impl FromRequestParts<Shared> for Caller {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Refused> {
        let token = bearer(&parts.headers)?.ok_or_else(Refusal::unauthorized)?;
        let Claims { user_id, service, .. } =
            shared.api.gateway.verify(&token).await.map_err(Refusal::from)?;
        Ok(Self { user_id, is_service: service })
    }
}

/// A caller whose token has the scope `service`: the application's back end.
#[derive(Debug)]
pub(super) struct Service;

impl FromRequestParts<Shared> for Service {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Refused> {
        if !Caller::from_request_parts(parts, shared).await?.is_service {
            let message = "this needs a token whose scope contains service";
            return Err(Refusal::new(ErrorCode::Forbidden, message).into());
        }
        Ok(Self)
    }
}
