//! One device of the probe: a connection, and every frame it received.

use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use heartline_client::{Client, ClientConfig, ClientEvent};
use heartline_protocol::{ClientFrame, DeviceId, ServerFrame, Token};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Frames that are kept; a probe receives far fewer.
const RECEIVED_MAX: usize = 1000;

/// A connected device.
#[derive(Debug)]
pub(super) struct Device {
    /// The name of the device in error messages.
    name: String,
    client: Client,
    events: mpsc::Receiver<ClientEvent>,
    received: Vec<ServerFrame>,
}

impl Device {
    /// Connects, and waits until the connection is established.
    pub(super) async fn connect(
        url: &str,
        token: Token,
        device_id: &DeviceId,
        within: Duration,
    ) -> Result<Self> {
        let name = format!("the device {} on {url}", device_id.as_str());
        let mut config = ClientConfig::new(url, token);
        config.device_id = Some(device_id.clone());
        let (client, events) = Client::start(config)?;
        let mut device = Self { name, client, events, received: Vec::new() };
        let established = timeout(within, device.established()).await;
        established.map_err(|_| anyhow!("{} was not admitted in time", device.name))??;
        Ok(device)
    }

    async fn established(&mut self) -> Result<()> {
        let mut last = String::new();
        while let Some(event) = self.events.recv().await {
            match event {
                ClientEvent::Connected(_) => return Ok(()),
                ClientEvent::Disconnected { ending, .. } => last = format!("{ending:?}"),
                ClientEvent::Stopped(_) => break,
                ClientEvent::Connecting { .. } | ClientEvent::Frame { .. } => {}
            }
        }
        bail!("{} cannot connect: {last}", self.name)
    }

    /// Sends a frame.
    pub(super) async fn send(&self, frame: &ClientFrame) -> Result<()> {
        self.client.send(frame).await.map_err(|error| anyhow!("{}: {error}", self.name))
    }

    /// Discards the frames that were received so far.
    pub(super) fn discard_received(&mut self) {
        while let Ok(event) = self.events.try_recv() {
            drop(event);
        }
        self.received.clear();
    }

    /// Returns the first result of `find` among the received frames and those that arrive in time.
    pub(super) async fn receive<T>(
        &mut self,
        what: &str,
        within: Duration,
        find: impl Fn(&ServerFrame) -> Option<T>,
    ) -> Result<T> {
        if let Some(found) = self.received.iter().find_map(&find) {
            return Ok(found);
        }
        let receiving = async {
            while let Some(event) = self.events.recv().await {
                match event {
                    ClientEvent::Frame { frame, .. } => {
                        if let ServerFrame::Error(error) = &*frame {
                            bail!(
                                "{} received the error {:?}: {}",
                                self.name,
                                error.code,
                                error.message
                            );
                        }
                        let found = find(&frame);
                        if self.received.len() < RECEIVED_MAX {
                            self.received.push(*frame);
                        }
                        if let Some(found) = found {
                            return Ok(found);
                        }
                    }
                    ClientEvent::Disconnected { ending, .. } => {
                        bail!("{} lost its connection: {ending:?}", self.name)
                    }
                    _ => {}
                }
            }
            bail!("{} has stopped", self.name)
        };
        let result = timeout(within, receiving).await;
        result.map_err(|_| {
            let seconds = within.as_secs();
            anyhow!("{} did not receive {what} within {seconds} s", self.name)
        })?
    }

    /// Closes the connection in order.
    pub(super) async fn close(self) {
        // If its receiver were dropped first, the client would stop without closing in order.
        let Self { client, events, .. } = self;
        client.close().await;
        drop(events);
    }
}
