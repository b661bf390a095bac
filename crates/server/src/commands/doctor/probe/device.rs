//! One device of the probe: a socket, and everything it was told.

use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use heartline_client::{Client, ClientConfig, ClientEvent};
use heartline_protocol::{ClientFrame, DeviceId, ServerFrame, Token};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Frames that are remembered; a probe of its own users hears far fewer.
const HEARD_MAX: usize = 1000;

/// A connected device.
#[derive(Debug)]
pub(super) struct Device {
    /// What it is called in sentences.
    name: String,
    client: Client,
    events: mpsc::Receiver<ClientEvent>,
    heard: Vec<ServerFrame>,
}

impl Device {
    /// Connects, or says why not.
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
        let mut device = Self { name, client, events, heard: Vec::new() };
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

    /// Says something.
    pub(super) async fn send(&self, frame: &ClientFrame) -> Result<()> {
        self.client.send(frame).await.map_err(|error| anyhow!("{}: {error}", self.name))
    }

    /// Forgets what was heard until now.
    pub(super) fn forget(&mut self) {
        while let Ok(event) = self.events.try_recv() {
            drop(event);
        }
        self.heard.clear();
    }

    /// What `find` makes of the first frame that it takes, among those that were heard and those
    /// that come in time.
    pub(super) async fn hears<T>(
        &mut self,
        what: &str,
        within: Duration,
        find: impl Fn(&ServerFrame) -> Option<T>,
    ) -> Result<T> {
        if let Some(found) = self.heard.iter().find_map(&find) {
            return Ok(found);
        }
        let listening = async {
            while let Some(event) = self.events.recv().await {
                match event {
                    ClientEvent::Frame { frame, .. } => {
                        if let ServerFrame::Error(error) = &*frame {
                            bail!("{} was told {:?}: {}", self.name, error.code, error.message);
                        }
                        let found = find(&frame);
                        if self.heard.len() < HEARD_MAX {
                            self.heard.push(*frame);
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
        let listened = timeout(within, listening).await;
        listened.map_err(|_| {
            let seconds = within.as_secs();
            anyhow!("{} did not hear {what} within {seconds} s", self.name)
        })?
    }

    /// Leaves in order.
    pub(super) async fn close(self) {
        // Without its receiver the client would end at once instead.
        let Self { client, events, .. } = self;
        client.close().await;
        drop(events);
    }
}
