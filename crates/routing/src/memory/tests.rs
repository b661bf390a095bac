use super::MemoryDirectory;
use crate::contract::Contract;
use heartline_runtime::Clock;

#[tokio::test(start_paused = true)]
async fn the_memory_directory_keeps_the_contract() {
    let directory = MemoryDirectory::new(7, Clock::system());
    Contract::new(7, &[&directory]).run().await;
}
