//! What the probe's users do: two devices of one and an observer, one act after the other.

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

/// How far clocks may differ before it is worth a word.
const CLOCK_AHEAD_MAX_MS: u64 = 1000;

/// How often presence is asked for while it is being made again, and how long altogether.
const SETTLING_POLL: Duration = Duration::from_millis(500);
const SETTLING_POLLS: usize = 80;

/// How long after a departure others would have heard of it, if they were to.
const DEPARTURE_PAUSE: Duration = Duration::from_secs(2);

/// One performance, and what it has shown until now.
pub(super) struct Script<'a> {
    probe: &'a Probe,
    /// Who is watched and receives.
    subject: UserId,
    /// Who watches and sends.
    observer: UserId,
    phone: Option<Device>,
    laptop: Option<Device>,
    watch: Option<Device>,
    chat_id: Option<ChatId>,
    /// Whether there is something to delete.
    has_begun: bool,
    /// The invariants that the present act is to show.
    act: &'static [&'static str],
    shown: Vec<Evidence>,
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
            act: &[],
            shown: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Plays everything. What was shown until a failure does not count: it is played again.
    pub(super) async fn play(&mut self) -> Result<()> {
        let visible = json!({ "visibility": "everyone" });
        self.rest(&self.subject, Method::PUT, "/v1/presence/visibility", Some(&visible)).await?;
        self.has_begun = true;
        self.phone = Some(self.connect(&self.subject, "phone", self.first_url()).await?);
        if self.probe.is_multi_device {
            self.laptop = Some(self.connect(&self.subject, "laptop", self.last_url()).await?);
        }
        self.watch = Some(self.connect(&self.observer, "watch", self.first_url()).await?);
        self.compare_clocks().await?;
        self.act = &["no_silent_message_loss", "failfast_persistence", "multi_device_delivery"];
        self.deliver().await.context("a message to every device")?;
        self.act = &["reconnect_heals"];
        self.catch_up().await.context("a sync after coming back")?;
        self.act = &[];
        self.settled().await?;
        self.act = &[
            "presence_derives_from_connections",
            "multi_device_aggregation",
            "eventual_consistency_bound",
        ];
        self.be_seen().await.context("presence")?;
        self.act = &["privacy_enforced"];
        self.hide().await.context("privacy")
    }

    /// The invariant that was to be shown when it broke off.
    pub(super) fn unshown(&self) -> Option<&'static str> {
        let is_shown = |name: &str| self.shown.iter().any(|shown| shown.invariant == name);
        self.act.iter().copied().find(|name| !is_shown(name))
    }

    /// What was shown, and what else was seen.
    pub(super) fn into_shown(self) -> (Vec<Evidence>, Vec<Finding>) {
        (self.shown, self.notes)
    }

    /// Closes the devices and deletes what was made.
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
        let time = watch.hears("an answer to a heartbeat", SLACK, find).await?;
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

    /// A message is acknowledged, stored, the same when it is repeated, and on every device.
    async fn deliver(&mut self) -> Result<()> {
        let members = json!({ "type": "group", "member_ids": [self.subject] });
        let made = self.rest(&self.observer, Method::POST, "/v1/chats", Some(&members)).await?;
        let chat_id: ChatId = serde_json::from_value(made["chat_id"].clone())?;
        self.chat_id = Some(chat_id);
        let ack = self.send("first").await?;
        self.show("no_silent_message_loss", "the probe's send was acknowledged");
        let path = format!("/v1/chats/{chat_id}/messages");
        let page = self.rest(&self.subject, Method::GET, &path, None).await?;
        let stored = page["items"].as_array().into_iter().flatten();
        let is_stored = |item: &Value| item["message_id"] == json!(ack.message_id);
        ensure!(stored.into_iter().any(is_stored), "what was acknowledged is not in the chat");
        let again = self.send("first").await?;
        ensure!(
            again.duplicate && again.sequence == ack.sequence,
            "the repeated message was stored again, as {}",
            again.sequence
        );
        self.show("failfast_persistence", "what the probe had acknowledged was stored");
        let devices = [self.phone.as_mut(), self.laptop.as_mut()];
        for device in devices.into_iter().flatten() {
            device.hears("the message", SLACK, |frame| pushed(frame, ack.sequence)).await?;
        }
        if self.probe.is_multi_device {
            self.show("multi_device_delivery", "the probe's message came to both devices");
        }
        Ok(())
    }

    /// Who was away while something was said gets it afterwards.
    async fn catch_up(&mut self) -> Result<()> {
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
        let has_it = phone.hears("its page", SLACK, find).await?;
        self.phone = Some(phone);
        ensure!(has_it, "the page does not hold what was said meanwhile");
        self.show("reconnect_heals", "the probe synced what was said while it was away");
        Ok(())
    }

    /// Waits until nodes tell who is online: after a wipe or a start that takes one lease.
    async fn settled(&self) -> Result<()> {
        for _ in 0..SETTLING_POLLS {
            if self.seen().await?.get("stale").is_none() {
                return Ok(());
            }
            sleep(SETTLING_POLL).await;
        }
        Err(anyhow!("presence stays stale: the nodes cannot tell who is online"))
    }

    /// The subject is online while any device is connected, and others hear of the last one's end.
    async fn be_seen(&mut self) -> Result<()> {
        let subject = self.subject.clone();
        let watch = self.watch.as_mut().ok_or_else(missing)?;
        watch.forget();
        let request =
            PresenceUsers { request_id: "watch".parse()?, user_ids: vec![subject.clone()] };
        watch.send(&ClientFrame::PresenceSubscribe(request)).await?;
        let find = |frame: &ServerFrame| match frame {
            ServerFrame::PresenceSnapshot { users, .. } => users.first().cloned(),
            _ => None,
        };
        let snapshot = watch.hears("a snapshot", SLACK, find).await?;
        ensure!(snapshot.status == PresenceStatus::Online, "connected, and shown {snapshot:?}");
        self.show("presence_derives_from_connections", "the probe was online while connected");
        if let Some(laptop) = self.laptop.take() {
            laptop.close().await;
            sleep(DEPARTURE_PAUSE).await;
            let seen = self.seen().await?;
            ensure!(seen["status"] == "online", "one of two devices left, and it is {seen}");
            self.show("multi_device_aggregation", "the probe stayed online with one of two");
        }
        let left_at = self.probe.clock.now();
        if let Some(phone) = self.phone.take() {
            phone.close().await;
        }
        let within = self.probe.departure_within;
        self.told(PresenceStatus::Offline, within).await?;
        let took = self.probe.clock.now() - left_at;
        let text = format!("the probe's end was told after {} ms", took.as_millis());
        self.show("eventual_consistency_bound", &text);
        self.show("presence_staleness_bounded", &text);
        self.phone = Some(self.connect(&self.subject, "phone", self.last_url()).await?);
        self.told(PresenceStatus::Online, within).await
    }

    /// Who hides is unknown, on the socket and over REST.
    async fn hide(&mut self) -> Result<()> {
        let hidden = json!({ "visibility": "nobody" });
        self.rest(&self.subject, Method::PUT, "/v1/presence/visibility", Some(&hidden)).await?;
        self.told(PresenceStatus::Unknown, SLACK).await?;
        let seen = self.seen().await?;
        let expected = json!({ "user_id": self.subject, "status": "unknown" });
        ensure!(seen == expected, "a user who is seen by nobody is told as {seen}");
        self.show("privacy_enforced", "the probe hid, and was unknown on the socket and by REST");
        Ok(())
    }

    /// Waits until the observer is told this, and forgets what it was told.
    async fn told(&mut self, status: PresenceStatus, within: Duration) -> Result<()> {
        let subject = self.subject.clone();
        let watch = self.watch.as_mut().ok_or_else(missing)?;
        let find = |frame: &ServerFrame| match frame {
            ServerFrame::PresenceChanged(Presence { user_id, status: told, stale, .. }) => {
                (*user_id == subject && *told == status && !stale).then_some(())
            }
            _ => None,
        };
        watch.hears(&format!("that the user is {status:?}"), within, find).await?;
        watch.forget();
        Ok(())
    }

    /// Sends under an id of this content's own, and waits for the answer.
    async fn send(&mut self, content: &str) -> Result<MessageAck> {
        let watch = self.watch.as_mut().ok_or_else(missing)?;
        watch.forget();
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
        watch.hears("an acknowledgement", SLACK, find).await
    }

    /// What the observer sees over REST.
    async fn seen(&self) -> Result<Value> {
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

    fn show(&mut self, invariant: &'static str, text: &str) {
        self.shown.push(Evidence::holds(invariant, text));
    }

    fn first_url(&self) -> &'a str {
        self.probe.urls.first().map_or("", String::as_str)
    }

    fn last_url(&self) -> &'a str {
        self.probe.urls.last().map_or("", String::as_str)
    }
}

/// A message push of this number.
fn pushed(frame: &ServerFrame, sequence: u64) -> Option<()> {
    matches!(frame, ServerFrame::Message(message) if message.sequence == sequence).then_some(())
}

/// The acts are in an order in which everything is there.
fn missing() -> anyhow::Error {
    anyhow!("the probe lost one of its devices")
}
