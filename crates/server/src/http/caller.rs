//! Who asks: the token of a request.

use axum::extract::FromRequestParts;
use heartline_gateway::Refusal;
use heartline_gateway::websocket::bearer;
use heartline_protocol::ErrorCode;
use http::request::Parts;

use super::{Api, Refused};

/// A caller whose token has the scope `service`: the application's own back end.
#[derive(Debug)]
pub(super) struct Service;

impl FromRequestParts<Api> for Service {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Refused> {
        let token = bearer(&parts.headers)?.ok_or_else(Refusal::unauthorized)?;
        let claims = api.gateway.verify(&token).await.map_err(Refusal::from)?;
        if !claims.service {
            let message = "this needs a token whose scope contains service";
            return Err(Refusal::new(ErrorCode::Forbidden, message).into());
        }
        Ok(Self)
    }
}
