//! The probe: users of the doctor's own, who send messages and observe each other on real nodes.

mod device;
mod script;

use std::time::Duration;

use heartline_auth::{NewToken, Secret, sign};
use heartline_client::ClientConfig;
use heartline_gateway::config::SessionPolicy;
use heartline_protocol::{DeviceId, Token, UserId};
use heartline_runtime::Clock;

use self::script::Script;
use super::evidence::Evidence;
use super::report::{Finding, Report};
use super::web::Web;
use crate::config::Loaded;

/// The lifetime of a probe's tokens: longer than any probe.
const LIFETIME: Duration = Duration::from_secs(600);

/// The prefix of the ids of the probe's users.
const USER_PREFIX: &str = "doctor-probe";

/// The delay that is allowed on a busy system, beyond the promised time.
const SLACK: Duration = Duration::from_secs(10);

/// The attempts of a probe: the first one may have met a node that was stopping.
const ATTEMPTS: usize = 2;

/// The advice for a failed probe.
const ADVICE: &str = "search the nodes' logs for the probe's users, doctor-probe-…";

/// The settings of a probe.
pub(super) struct Probe {
    urls: Vec<String>,
    secret: Secret,
    issuer: Option<String>,
    audience: Option<String>,
    /// Whether a user may have several devices.
    is_multi_device: bool,
    /// How long after the last disconnect observers must have received the transition.
    departure_within: Duration,
    clock: Clock,
    web: Web,
}

impl Probe {
    pub(super) fn new(urls: &[String], secret: Secret, loaded: &Loaded, clock: Clock) -> Self {
        let config = &loaded.config;
        let trust = ClientConfig::new("", Token(String::new())).tls_config();
        Self {
            urls: urls.to_vec(),
            secret,
            issuer: loaded.auth_keys.issuer.clone(),
            audience: loaded.auth_keys.audience.clone(),
            is_multi_device: config.gateway.session_policy == SessionPolicy::MultiDevice,
            departure_within: config.presence.offline_linger
                + config.routing.sweep_interval
                + SLACK,
            clock,
            web: Web::new(&trust),
        }
    }

    /// Runs the script and returns the evidence.
    pub(super) async fn run(&self, report: &mut Report<'_>) -> Vec<Evidence> {
        let mut attempt = 1;
        loop {
            let mut script = Script::new(self);
            let result = report.watch("probing", script.run()).await;
            let cleaned = report.watch("cleaning up after the probe", script.clean_up()).await;
            if let Err(error) = cleaned {
                let evidence = format!("the probe's chat or users may still exist: {error:#}");
                let advice = format!("delete the users whose ids begin with {USER_PREFIX}");
                report.note(Finding::warn("probe clean-up", evidence).advise(advice));
            }
            let unproved = script.unproved();
            let (mut evidence, notes) = script.into_evidence();
            match result {
                Ok(()) => {
                    let nodes = self.urls.join(" and ");
                    report.note(Finding::pass("probe", format!("all steps succeeded on {nodes}")));
                    notes.into_iter().for_each(|note| report.note(note));
                    return evidence;
                }
                Err(_) if attempt < ATTEMPTS => attempt += 1,
                Err(error) => {
                    let text = format!("{error:#}");
                    let against = |name| Evidence::against(name, format!("probe: {text}"), ADVICE);
                    evidence.extend(unproved.map(against));
                    report.note(Finding::fail("probe", text.clone()).advise(ADVICE));
                    return evidence;
                }
            }
        }
    }

    /// A token of one of the probe's users.
    fn token(&self, user_id: &UserId, device_id: Option<&DeviceId>) -> anyhow::Result<Token> {
        self.sign(user_id, device_id, None)
    }

    /// A token that may delete the probe's users.
    fn service_token(&self) -> anyhow::Result<Token> {
        self.sign(&USER_PREFIX.parse()?, None, Some("service"))
    }

    fn sign(
        &self,
        user_id: &UserId,
        device_id: Option<&DeviceId>,
        scope: Option<&str>,
    ) -> anyhow::Result<Token> {
        let token = NewToken {
            device_id: device_id.cloned(),
            scope: scope.map(str::to_owned),
            issuer: self.issuer.clone(),
            audience: self.audience.clone(),
            ..NewToken::new(user_id.clone(), LIFETIME)
        };
        Ok(Token(sign(&token, &self.secret, self.clock.wall())?))
    }
}
