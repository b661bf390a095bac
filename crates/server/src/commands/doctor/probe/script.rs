//! The steps of the probe: two devices of one user, and an observer.

use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use heartline_protocol::client_frame::{Heartbeat, PresenceUsers, SendMessage, SyncRequest};
use heartline_protocol::server_frame::{MessageAck, Presence, PresenceStatus};
use heartline_protocol::{ChatId, ClientFrame, DeviceId, ServerFrame, Token, UserId};
use heartline_runtime::Random;
use http::Method;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::super::evidence::Evidence;
use super::super::report::Finding;
use super::super::web::base_of;
use super::device::Device;
use super::{Probe, SLACK, USER_PREFIX};

/// The difference of clocks above which the doctor warns.
const CLOCK_AHEAD_MAX_MS: u64 = 1000;

/// How often presence is read while it is being rebuilt, and how many times.
const REBUILD_POLL: Duration = Duration::from_millis(500);
const REBUILD_POLLS: usize = 80;

/// The pause after a disconnect in which a wrong transition would arrive.
const DISCONNECT_PAUSE: Duration = Duration::from_secs(2);

/// One run of the probe, and its evidence so far.
pub(super) struct Script<'a> {
    probe: &'a Probe,
    /// The user who is observed and receives messages.
    subject: UserId,
    /// The user who observes and sends messages.
    observer: UserId,
    phone: Option<Device>,
    laptop: Option<Device>,
    watch: Option<Device>,
    chat_id: Option<ChatId>,
    /// Whether users were created that must be deleted.
    has_begun: bool,
    /// The invariants that the present step checks.
    step: &'static [&'static str],
    evidence: Vec<Evidence>,
    notes: Vec<Finding>,
}

impl<'a> Script<'a> {
    pub(super) fn new(probe: &'a Probe) -> Self {
        let name = format!("{USER_PREFIX}-{:016x}", Random::system().draw::<u64>());
        let user = |role: &str| format!("{name}-{role}").parse().expect("a legal user id");
        Self {
            probe,
            subject: user("subject"),
            observer: user("observer"),
            phone: None,
            laptop: None,
            watch: None,
            chat_id: None,
            has_begun: false,
            step: &[],
            evidence: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Runs every step. After a failure the evidence is dropped and the script runs again.
    pub(super) async fn run(&mut self) -> Result<()> {
        let visible = json!({ "visibility": "everyone" });
        self.rest(&self.subject, Method::PUT, "/v1/presence/visibility", Some(&visible)).await?;
        self.has_begun = true;
        self.phone = Some(self.connect(&self.subject, "phone", self.first_url()).await?);
        if self.probe.is_multi_device {
            self.laptop = Some(self.connect(&self.subject, "laptop", self.last_url()).await?);
        }
        self.watch = Some(self.connect(&self.observer, "watch", self.first_url()).await?);
        self.compare_clocks().await?;
        self.step = &["no_silent_message_loss", "failfast_persistence", "multi_device_delivery"];
        self.check_delivery().await.context("a message to every device")?;
        self.step = &["reconnect_heals"];
        self.check_sync().await.context("a sync after a reconnect")?;
        self.step = &[];
        self.wait_for_presence().await?;
        self.step = &[
            "presence_derives_from_connections",
            "multi_device_aggregation",
            "eventual_consistency_bound",
        ];
        self.check_presence().await.context("presence")?;
        self.step = &["privacy_enforced"];
        self.check_privacy().await.context("privacy")
    }

    /// The first invariant of the failed step without evidence.
    pub(super) fn unproved(&self) -> Option<&'static str> {
        let is_proved = |name: &str| self.evidence.iter().any(|it| it.invariant == name);
        self.step.iter().copied().find(|name| !is_proved(name))
    }

    /// The evidence, and the other findings.
    pub(super) fn into_evidence(self) -> (Vec<Evidence>, Vec<Finding>) {
        (self.evidence, self.notes)
    }

    /// Closes the devices and deletes the chat and the users.
    pub(super) async fn clean_up(&mut self) -> Result<()> {
        let devices = [self.phone.take(), self.laptop.take(), self.watch.take()];
        for device in devices.into_iter().flatten() {
            device.close().await;
        }
        if let Some(chat_id) = self.chat_id.take() {
            self.rest(&self.observer, Method::DELETE, &format!("/v1/chats/{chat_id}"), None)
                .await?;
        }
        if !self.has_begun {
            return Ok(());
        }
        let service = self.probe.service_token()?;
        for user_id in [&self.subject, &self.observer] {
            let path = format!("/v1/users/{user_id}");
            self.call(&service, Method::DELETE, &path, None).await?;
        }
        Ok(())
    }

    async fn compare_clocks(&mut self) -> Result<()> {
        let asked_at = self.probe.clock.wall().unix_ms;
        let watch = self.watch.as_mut().ok_or_else(missing)?;
        watch.send(&ClientFrame::Heartbeat(Heartbeat {})).await?;
        let find = |frame: &ServerFrame| match frame {
            ServerFrame::HeartbeatAck { server_time } => Some(*server_time),
            _ => None,
        };
        let time = watch.receive("a reply to a heartbeat", SLACK, find).await?;
        let between = asked_at.midpoint(self.probe.clock.wall().unix_ms);
        let ahead_ms = time.unix_ms.cast_signed() - between.cast_signed();
        let evidence = format!("{} is {ahead_ms} ms ahead of this machine", self.first_url());
        self.notes.push(match ahead_ms.unsigned_abs() > CLOCK_AHEAD_MAX_MS {
            true => Finding::warn("node clock", evidence)
                .advise("synchronise both with a time server; only logs and tokens depend on it"),
            false => Finding::pass("node clock", evidence),
        });
        Ok(())
    }

    /// A message is acknowledged, stored once although it is sent twice, and pushed to every
    /// device.
    async fn check_delivery(&mut self) -> Result<()> {
        let members = json!({ "type": "group", "member_ids": [self.subject] });
        let made = self.rest(&self.observer, Method::POST, "/v1/chats", Some(&members)).await?;
        let chat_id: ChatId = serde_json::from_value(made["chat_id"].clone())?;
        self.chat_id = Some(chat_id);
        let ack = self.send("first").await?;
        self.prove("no_silent_message_loss", "the probe's send was acknowledged");
        let path = format!("/v1/chats/{chat_id}/messages");
        let page = self.rest(&self.subject, Method::GET, &path, None).await?;
        let stored = page["items"].as_array().into_iter().flatten();
        let is_stored = |item: &Value| item["message_id"] == json!(ack.message_id);
        ensure!(stored.into_iter().any(is_stored), "the acknowledged message is not in the chat");
        let again = self.send("first").await?;
        ensure!(
            again.duplicate && again.sequence == ack.sequence,
            "the repeated message was stored again, as {}",
            again.sequence
        );
        self.prove("failfast_persistence", "the message that the probe sent was stored");
        let devices = [self.phone.as_mut(), self.laptop.as_mut()];
        for device in devices.into_iter().flatten() {
            device.receive("the message", SLACK, |frame| pushed(frame, ack.sequence)).await?;
        }
        if self.probe.is_multi_device {
            self.prove("multi_device_delivery", "the probe's message reached both devices");
        }
        Ok(())
    }

    /// A device that was disconnected syncs the messages that it missed.
    async fn check_sync(&mut self) -> Result<()> {
        let chat_id = self.chat_id.ok_or_else(missing)?;
        if let Some(phone) = self.phone.take() {
            phone.close().await;
        }
        let ack = self.send("second").await?;
        let mut phone = self.connect(&self.subject, "phone", self.first_url()).await?;
        let request = SyncRequest {
            request_id: "sync".parse()?,
            chat_id,
            after_sequence: ack.sequence - 1,
            limit: None,
        };
        phone.send(&ClientFrame::SyncRequest(request)).await?;
        let find = |frame: &ServerFrame| match frame {
            ServerFrame::SyncResponse { messages, .. } => {
                Some(messages.iter().any(|message| message.sequence == ack.sequence))
            }
            _ => None,
        };
        let has_it = phone.receive("the sync response", SLACK, find).await?;
        self.phone = Some(phone);
        ensure!(has_it, "the sync response lacks the message that was sent meanwhile");
        self.prove("reconnect_heals", "the probe synced a message that it had missed");
        Ok(())
    }

    /// Waits until nodes know who is online: after a start or a loss of Redis this takes one lease.
    async fn wait_for_presence(&self) -> Result<()> {
        for _ in 0..REBUILD_POLLS {
            if self.read_presence().await?.get("stale").is_none() {
                return Ok(());
            }
            sleep(REBUILD_POLL).await;
        }
        Err(anyhow!("presence stays stale: the nodes do not know who is online"))
    }

    /// The subject is online while any device is connected; the last disconnect reaches the
    /// observer.
    async fn check_presence(&mut self) -> Result<()> {
        let subject = self.subject.clone();
        let watch = self.watch.as_mut().ok_or_else(missing)?;
        watch.discard_received();
        let request =
            PresenceUsers { request_id: "watch".parse()?, user_ids: vec![subject.clone()] };
        watch.send(&ClientFrame::PresenceSubscribe(request)).await?;
        let find = |frame: &ServerFrame| match frame {
            ServerFrame::PresenceSnapshot { users, .. } => users.first().cloned(),
            _ => None,
        };
        let snapshot = watch.receive("a snapshot", SLACK, find).await?;
        ensure!(
            snapshot.status == PresenceStatus::Online,
            "the user is connected, but its presence is {snapshot:?}"
        );
        self.prove("presence_derives_from_connections", "the probe was online while connected");
        if let Some(laptop) = self.laptop.take() {
            laptop.close().await;
            sleep(DISCONNECT_PAUSE).await;
            let seen = self.read_presence().await?;
            ensure!(
                seen["status"] == "online",
                "one of two devices is connected, but presence is {seen}"
            );
            self.prove(
                "multi_device_aggregation",
                "the probe stayed online with one of two devices",
            );
        }
        let left_at = self.probe.clock.now();
        if let Some(phone) = self.phone.take() {
            phone.close().await;
        }
        let within = self.probe.departure_within;
        self.receive_status(PresenceStatus::Offline, within).await?;
        let took = self.probe.clock.now() - left_at;
        let text =
            format!("the probe's disconnect reached the observer after {} ms", took.as_millis());
        self.prove("eventual_consistency_bound", &text);
        self.prove("presence_staleness_bounded", &text);
        self.phone = Some(self.connect(&self.subject, "phone", self.last_url()).await?);
        self.receive_status(PresenceStatus::Online, within).await
    }

    /// A hidden user is unknown, on the socket and over REST.
    async fn check_privacy(&mut self) -> Result<()> {
        let hidden = json!({ "visibility": "nobody" });
        self.rest(&self.subject, Method::PUT, "/v1/presence/visibility", Some(&hidden)).await?;
        self.receive_status(PresenceStatus::Unknown, SLACK).await?;
        let seen = self.read_presence().await?;
        let expected = json!({ "user_id": self.subject, "status": "unknown" });
        ensure!(seen == expected, "a user who is visible to nobody has the presence {seen}");
        self.prove(
            "privacy_enforced",
            "the probe hid, and was unknown on the socket and over REST",
        );
        Ok(())
    }

    /// Waits until the observer receives this status, and discards its frames.
    async fn receive_status(&mut self, status: PresenceStatus, within: Duration) -> Result<()> {
        let subject = self.subject.clone();
        let watch = self.watch.as_mut().ok_or_else(missing)?;
        let find = |frame: &ServerFrame| match frame {
            ServerFrame::PresenceChanged(Presence { user_id, status: pushed, stale, .. }) => {
                (*user_id == subject && *pushed == status && !stale).then_some(())
            }
            _ => None,
        };
        watch.receive(&format!("that the user is {status:?}"), within, find).await?;
        watch.discard_received();
        Ok(())
    }

    /// Sends a message whose id is derived from its content, and waits for the acknowledgement.
    async fn send(&mut self, content: &str) -> Result<MessageAck> {
        let watch = self.watch.as_mut().ok_or_else(missing)?;
        watch.discard_received();
        let message = SendMessage {
            request_id: "send".parse()?,
            chat_id: self.chat_id.ok_or_else(missing)?,
            client_message_id: format!("probe-{content}").parse()?,
            content: content.to_owned(),
            content_type: None,
        };
        watch.send(&ClientFrame::SendMessage(message)).await?;
        let find = |frame: &ServerFrame| match frame {
            ServerFrame::MessageAck(ack) => Some(ack.clone()),
            _ => None,
        };
        watch.receive("an acknowledgement", SLACK, find).await
    }

    /// The presence of the subject as the observer reads it over REST.
    async fn read_presence(&self) -> Result<Value> {
        let path = format!("/v1/presence/{}", self.subject);
        self.rest(&self.observer, Method::GET, &path, None).await
    }

    async fn connect(&self, user_id: &UserId, device: &str, url: &str) -> Result<Device> {
        let device_id: DeviceId = device.parse()?;
        let token = self.probe.token(user_id, Some(&device_id))?;
        Device::connect(url, token, &device_id, SLACK).await
    }

    async fn rest(
        &self,
        user_id: &UserId,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value> {
        self.call(&self.probe.token(user_id, None)?, method, path, body).await
    }

    async fn call(
        &self,
        token: &Token,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value> {
        let url = format!("{}{path}", base_of(self.first_url())?);
        self.probe.web.call(method, &url, token, body).await
    }

    fn prove(&mut self, invariant: &'static str, text: &str) {
        self.evidence.push(Evidence::holds(invariant, text));
    }

    fn first_url(&self) -> &'a str {
        self.probe.urls.first().map_or("", String::as_str)
    }

    fn last_url(&self) -> &'a str {
        self.probe.urls.last().map_or("", String::as_str)
    }
}

/// A push of the message with this sequence.
fn pushed(frame: &ServerFrame, sequence: u64) -> Option<()> {
    matches!(frame, ServerFrame::Message(message) if message.sequence == sequence).then_some(())
}

/// The error for a missing device or chat; the order of the steps rules it out.
fn missing() -> anyhow::Error {
    anyhow!("the probe lost one of its devices")
}
