//! The memory directory keeps the contract.

use heartline_routing::contract::Contract;
use heartline_routing::{Clock, MemoryDirectory};

#[tokio::test(start_paused = true)]
async fn the_memory_directory_keeps_the_contract() {
    let contract = Contract { shards: 7 };
    contract.run(&MemoryDirectory::new(contract.shards, Clock)).await;
}
