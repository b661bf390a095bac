//! `/v1/presence`: queries of presence without a subscription.

use axum::Json;
use axum::extract::State;
use heartline_durability::Sight;
use heartline_gateway::Refusal;
use heartline_protocol::rest::{PRESENCE_QUERY_USERS_MAX, Page, PresenceQuery};
use heartline_protocol::server_frame::Presence;
use heartline_protocol::{ErrorCode, UserId};
use heartline_routing::rate::{Allowances, Rate};

use super::body::JsonBody;
use super::caller::Caller;
use super::path::PathId;
use super::{Api, Refused, field};

/// The most queries per second of one user.
const QUERY_RATE: u32 = 10;

/// The rate limit of each user.
#[derive(Debug, Clone)]
pub(super) struct PresenceQueryRates(Allowances<UserId>);

impl PresenceQueryRates {
    pub(super) fn new() -> Self {
        Self(Allowances::new(Rate::per_second(QUERY_RATE, QUERY_RATE)))
    }
}

pub(super) async fn read(
    State(api): State<Api>,
    State(rates): State<PresenceQueryRates>,
    caller: Caller,
    PathId(user_id): PathId<UserId>,
) -> Result<Json<Presence>, Refused> {
    let mut seen = see(&api, &rates, &caller, vec![user_id]).await?;
    Ok(Json(seen.pop().expect("one user was queried")))
}

pub(super) async fn query(
    State(api): State<Api>,
    State(rates): State<PresenceQueryRates>,
    caller: Caller,
    JsonBody(PresenceQuery { user_ids }): JsonBody<PresenceQuery>,
) -> Result<Json<Page<Presence>>, Refused> {
    if !(1..=PRESENCE_QUERY_USERS_MAX).contains(&user_ids.len()) {
        let allowed = format!("user_ids must name 1 to {PRESENCE_QUERY_USERS_MAX} users");
        return Err(field::wrong("user_ids", allowed).into());
    }
    let items = see(&api, &rates, &caller, user_ids).await?;
    Ok(Json(Page { items, next_cursor: None }))
}

async fn see(
    api: &Api,
    rates: &PresenceQueryRates,
    caller: &Caller,
    user_ids: Vec<UserId>,
) -> Result<Vec<Presence>, Refusal> {
    if let Err(seconds) = rates.0.take(&caller.user_id, api.gateway.clock().now()) {
        let message = "too many presence queries: query several users at once, or less often";
        return Err(Refusal::later(ErrorCode::RateLimited, message, seconds));
    }
    let sight = |user_id| Sight { observer_id: caller.user_id.clone(), user_id };
    let sights: Vec<Sight> = user_ids.into_iter().map(sight).collect();
    Ok(api.gateway.presence_reader().read(&sights).await)
}
