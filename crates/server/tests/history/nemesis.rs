//! The faults of the server while clients are busy.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use heartline_runtime::Random;
use rand::Rng;
use rand::rngs::StdRng;
use tokio::time::sleep;

use crate::history::Fault;
use crate::mounts::Namespace;
use crate::run::Shared;
use crate::server::Server;

/// How long clients live after the last fault, so that its effects show.
const AFTERWARDS: Duration = Duration::from_secs(1);

/// How long a server is paused: longer than any deadline of a request.
const PAUSE: Duration = Duration::from_secs(8);

pub(crate) async fn between(random: &mut StdRng, milliseconds: std::ops::Range<u64>) {
    sleep(Duration::from_millis(random.random_range(milliseconds))).await;
}

/// Kills the server while sends are open, and starts it again.
pub(crate) async fn kill(server: &mut Server, shared: &Shared, random: &mut StdRng, times: usize) {
    for _ in 0..times {
        between(random, 300..2500).await;
        shared.until_in_flight(random).await;
        shared.recorder.fault(Fault::Killed { node: 0 });
        server.kill().await;
        between(random, 0..200).await;
        server.start().await;
        shared.recorder.fault(Fault::Started { node: 0 });
    }
    sleep(AFTERWARDS).await;
}

/// Pauses the server's process for a while.
pub(crate) async fn pause(server: &mut Server, shared: &Shared, random: &mut StdRng, times: usize) {
    for _ in 0..times {
        between(random, 1000..3000).await;
        shared.until_in_flight(random).await;
        shared.recorder.fault(Fault::Paused { node: 0 });
        server.freeze().await;
        sleep(PAUSE).await;
        server.signal("CONT").await;
        shared.recorder.fault(Fault::Resumed { node: 0 });
    }
    sleep(AFTERWARDS).await;
}

/// A directory where something can be mounted.
fn mount_point() -> PathBuf {
    let name = format!("heartline-mount-{:032x}", Random::system().draw::<u128>());
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir(&path).unwrap();
    path
}

/// A small disk that can be filled.
#[derive(Debug)]
pub(crate) struct SmallDisk {
    point: PathBuf,
}

impl SmallDisk {
    pub(crate) async fn mount() -> (Self, Namespace) {
        let point = mount_point();
        let mount = format!("mount -t tmpfs -o size=96m tmpfs {}", point.display());
        let namespace = Namespace::new(&mount).await;
        (Self { point }, namespace)
    }

    /// Where the server has its data.
    pub(crate) fn data(&self) -> String {
        self.point.join("data").display().to_string()
    }

    /// Fills the disk to its last byte for some seconds, and makes room again.
    pub(crate) async fn fill(
        &self,
        server: &mut Server,
        shared: &Shared,
        random: &mut StdRng,
        times: usize,
    ) {
        let namespace = server.namespace.as_ref().expect("the disk is mounted there");
        let filler = namespace.path(&self.point.join("filler"));
        for _ in 0..times {
            between(random, 1000..3000).await;
            let mut file = File::create(&filler).unwrap();
            for bytes in [1 << 20, 1 << 12, 1] {
                while file.write_all(&vec![0; bytes]).is_ok() {}
            }
            shared.recorder.fault(Fault::DiskFilled);
            between(random, 2000..5000).await;
            drop(file);
            std::fs::remove_file(&filler).unwrap();
            shared.recorder.fault(Fault::DiskFreed);
        }
        // Waits until an open breaker has closed again.
        sleep(AFTERWARDS * 3).await;
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.point);
    }
}

/// A disk whose power can be cut: a file system in an image, in memory.
///
/// Data that the kernel has not written to the image when it is copied is lost in the copy, just as
/// it is lost on a disk without power; the journal of the copy is replayed when it is mounted.
#[derive(Debug)]
pub(crate) struct PoweredDisk {
    point: PathBuf,
    /// The number of the mounted copy of the image.
    generation: usize,
}

impl PoweredDisk {
    pub(crate) async fn mount() -> (Self, Namespace) {
        let disk = Self { point: mount_point(), generation: 0 };
        let script = format!(
            "mount -t tmpfs -o size=600m tmpfs {point}\n\
             truncate -s 192M {image}\n\
             mkfs.ext4 -q {image}\n\
             mkdir {mounted}\n\
             mount -o loop {image} {mounted}",
            point = disk.point.display(),
            image = disk.image(0),
            mounted = disk.mounted(),
        );
        let namespace = Namespace::new(&script).await;
        (disk, namespace)
    }

    fn image(&self, generation: usize) -> String {
        self.point.join(format!("disk_{generation}.img")).display().to_string()
    }

    fn mounted(&self) -> String {
        self.point.join("mounted").display().to_string()
    }

    /// Where the server has its data.
    pub(crate) fn data(&self) -> String {
        format!("{}/data", self.mounted())
    }

    /// Cuts the power while sends are open, and starts on what the disk kept.
    pub(crate) async fn cut(
        &mut self,
        server: &mut Server,
        shared: &Shared,
        random: &mut StdRng,
        times: usize,
    ) {
        // The chats are there already and are not what is tried.
        let namespace = server.namespace.as_ref().expect("the disk is mounted there");
        namespace.run(&format!("sync -f {}", self.mounted())).await;
        for _ in 0..times {
            between(random, 500..2500).await;
            shared.until_in_flight(random).await;
            shared.recorder.fault(Fault::PowerCut);
            server.freeze().await;
            let (old, new) = (self.image(self.generation), self.image(self.generation + 1));
            let mounted = self.mounted();
            let namespace = server.namespace.as_ref().expect("the disk is mounted there");
            // A copy during which the kernel wrote something is no moment of the disk's life.
            let copy = format!(
                "device=$(basename $(findmnt -n -o SOURCE --mountpoint {mounted}))\n\
                 for attempt in 1 2 3 4 5 6 7 8 9 10; do\n\
                     before=$(cat /sys/block/$device/stat)\n\
                     cp {old} {new}\n\
                     [ \"$before\" = \"$(cat /sys/block/$device/stat)\" ] && exit 0\n\
                 done\n\
                 echo 'the disk is never still' >&2\n\
                 exit 1"
            );
            namespace.run(&copy).await;
            server.kill().await;
            let namespace = server.namespace.as_ref().expect("the disk is mounted there");
            let swap = format!("umount {mounted}\nrm {old}\nmount -o loop {new} {mounted}");
            namespace.run(&swap).await;
            self.generation += 1;
            server.start().await;
            shared.recorder.fault(Fault::Started { node: 0 });
        }
        sleep(AFTERWARDS).await;
    }

    /// Takes the disk away: left to the end of its namespace, it would stay for a while.
    pub(crate) async fn unmount(&self, server: &mut Server) {
        server.kill().await;
        let namespace = server.namespace.as_ref().expect("the disk is mounted there");
        namespace.run(&format!("umount {}", self.mounted())).await;
    }
}

impl Drop for PoweredDisk {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.point);
    }
}
