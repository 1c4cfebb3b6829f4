//! The client of another commit. `make bench ONLY=client BEFORE=COMMIT` builds this in that commit's tree, as one more program of its
//! benchmarks, with the worker of this one.

mod by_client;
mod worker;

fn main() {
    let url = std::env::args().nth(1).expect("a URL");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(by_client::work(&url));
}
