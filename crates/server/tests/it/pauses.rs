//! A paused server process closes no connection after the pause.

use std::time::Duration;

use heartline_client::ClientEvent;
use heartline_testing::Server;

use crate::HEARTLINE;
use crate::peers::{Attentive, Device, Pusher};

const DEVICES: usize = 20;
const TABS: usize = 20;

/// A server with the default timings, real clients and hidden tabs on it.
struct Stage {
    server: Server,
    devices: Vec<Device>,
    tabs: Vec<Attentive>,
    everybody: Vec<String>,
}

impl Stage {
    async fn set() -> Self {
        let server = HEARTLINE.start().await;
        let (mut devices, mut tabs, mut everybody) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..DEVICES {
            let user = format!("device-{number}");
            let mut device = Device::start(&user, &[server.address]);
            device.connected().await;
            devices.push(device);
            everybody.push(user);
        }
        for number in 0..TABS {
            let user = format!("tab-{number}");
            tabs.push(Attentive::new(server.connect(&user).await));
            everybody.push(user);
        }
        Self { server, devices, tabs, everybody }
    }

    /// Stops the process for so long, in the middle of its heartbeats.
    async fn pause(&self, duration: Duration) {
        tokio::time::sleep(Duration::from_secs(4)).await;
        self.server.signal("STOP").await;
        tokio::time::sleep(duration).await;
        self.server.signal("CONT").await;
    }

    /// Asserts that all clients still have their connection, longer after the pause than a Ping may
    /// stay unanswered.
    async fn nobody_was_cut(&mut self) {
        tokio::time::sleep(Duration::from_secs(7)).await;
        let mut pusher = Pusher::new(&self.server).await;
        let reached = pusher.push(&self.everybody, 1, 200).await;
        assert_eq!(reached, (DEVICES + TABS) as u64);
        for tab in &mut self.tabs {
            tab.has(1).await;
        }
        for device in &mut self.devices {
            let left = |event: &ClientEvent| matches!(event, ClientEvent::Disconnected { .. });
            let events = device.events_so_far();
            assert!(!events.iter().any(left), "{events:?}");
        }
        assert_eq!(self.server.metric("gateway_connection_timeouts_total").await, 0.0);
        let connections = self.server.metric("gateway_connections_total").await;
        assert_eq!(connections, (DEVICES + TABS) as f64);
    }
}

#[tokio::test]
async fn a_server_that_was_stopped_for_4_or_8_seconds_cuts_nobody_and_is_cut_by_nobody() {
    // A client's heartbeat may stay unanswered for 10 s, so it bears both pauses.
    tokio::join!(pass_a_pause(Duration::from_secs(4)), pass_a_pause(Duration::from_secs(8)));
}

async fn pass_a_pause(duration: Duration) {
    let mut stage = Stage::set().await;
    stage.pause(duration).await;
    stage.nobody_was_cut().await;
}
