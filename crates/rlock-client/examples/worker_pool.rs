//! A pool of workers: orders are handled at the same time, those of one customer one after the other.
//!
//! Start it as often as you like, on as many machines: the locks are on the server.
//!
//! ```console
//! $ REDIS_URL=redis://127.0.0.1:6399 cargo run --example worker_pool
//! ```

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rlock_client::{Client, Error, Held};
use tokio::task::JoinSet;

const WORKERS: usize = 4;

struct Order {
    number: u32,
    customer: &'static str,
}

/// The orders to handle.
type Todo = Arc<Mutex<VecDeque<Order>>>;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1:6399".into());
    let client = Client::connect(&url).await?;
    let customers = ["ann", "bob", "cas"];
    let orders = (0..12_u32).zip(customers.into_iter().cycle());
    let todo: Todo =
        Arc::new(Mutex::new(orders.map(|(number, customer)| Order { number, customer }).collect()));
    let mut workers = JoinSet::new();
    for name in 1..=WORKERS {
        workers.spawn(work(name, client.clone(), todo.clone()));
    }
    while let Some(worker) = workers.join_next().await {
        worker??;
    }
    // All locks are free when this returns, not only when their leases end.
    client.close(Duration::from_secs(5)).await?;
    println!("all orders are handled");
    Ok(())
}

/// Takes one order after the other until there are no more.
async fn work(name: usize, client: Client, todo: Todo) -> Result<(), Error> {
    loop {
        let Some(order) = todo.lock().expect("never poisoned").pop_front() else { return Ok(()) };
        let lock = client.lock(format!("customer:{}", order.customer));
        match lock.run(|held| handle(name, &order, held)).await {
            Ok(outcome) => outcome?,
            // Another worker may hold the lock now and work for this customer. The loss undoes nothing that
            // was done so far: handling an order twice must do no harm.
            Err(Error::LockLost { why, .. }) => {
                println!("worker {name}: order {} is put back: {why}", order.number);
                todo.lock().expect("never poisoned").push_back(order);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Dropped at its next `.await` when the lock is lost.
async fn handle(name: usize, order: &Order, held: Held) -> Result<(), Error> {
    println!("worker {name}: begin {} order {}", order.customer, order.number);
    tokio::time::sleep(Duration::from_millis(20)).await;
    // Before what must not happen twice: costs no round trip.
    held.check()?;
    println!("worker {name}: end {} order {}", order.customer, order.number);
    Ok(())
}
