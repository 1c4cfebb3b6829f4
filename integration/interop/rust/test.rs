// The test of docs/clients/rust.md and of the code that it links to: `make interop` runs it behind the example of that page.

use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use redis::{Client, FromRedisValue, InfoDict, Value, cmd};

fn scenario(client: &Client, protocol: &str) -> RedisResult<()> {
    let key = format!("page:rust:{protocol}");
    let mut connection = client.get_connection()?;
    let (mut lock, mut other) = (Lock::new(1, &key, 30_000), Lock::new(2, &key, 30_000));

    // Acquire, and re-enter. Another is denied.
    assert!(lock.acquire(&mut connection, None)?);
    assert!(lock.acquire(&mut connection, None)?);
    assert!(!other.acquire(&mut connection, None)?);
    let left: i64 = cmd("PTTL").arg(&key).query(&mut connection)?;
    assert!((1..=30_000).contains(&left));

    // A reply was lost, and the command is sent again: no hold is added twice.
    let mut again = cmd("RLOCK.ACQUIRE");
    again.arg(&key).arg(&lock.owner).arg(30_000).arg("HOLDS").arg(2);
    let (holds, _, _): (u64, i64, u64) = again.query(&mut connection)?;
    assert_eq!(holds, 2);

    // The release hands the lock off to the blocked waiter.
    let mut connection_of_other = client.get_connection()?;
    let waiting = spawn(move || {
        let acquired = other.acquire(&mut connection_of_other, Some(20_000));
        acquired.map(|acquired| (acquired, other))
    });
    while waiters(&mut connection, &key)? == 0 {
        sleep(Duration::from_millis(5));
    }
    assert!(lock.release(&mut connection)?);
    let left: u64 = cmd("HGET").arg(&key).arg(&lock.owner).query(&mut connection)?;
    assert_eq!(left, 1);
    assert!(lock.release(&mut connection)?);
    let (acquired, mut other) = waiting.join().expect("the waiting thread")?;
    assert!(acquired);

    // A wait ends.
    let start = Instant::now();
    assert!(!lock.acquire(&mut connection, Some(300))?);
    assert!(start.elapsed() >= Duration::from_millis(290));

    // Renew; then lose the lock, here by force, and notice it.
    assert!(other.renew(&mut connection)?);
    let forced: bool = cmd("RLOCK.FORCERELEASE").arg(&key).query(&mut connection)?;
    assert!(forced);
    assert!(!other.renew(&mut connection)?);
    assert!(!other.release(&mut connection)?);

    // Or lose it by its lease end: the next waiter gets it.
    let mut hasty = Lock::new(4, &key, 50);
    assert!(hasty.acquire(&mut connection, None)?);
    assert!(lock.acquire(&mut connection, Some(20_000))?);
    assert!(!hasty.renew(&mut connection)?);
    assert!(!hasty.release(&mut connection)?);
    time_outs(client, connection, lock)?;
    after_errors(client, &key)
}

/// The client gives up waiting for replies before the lock is released, and repeats only on demand.
fn time_outs(client: &Client, mut connection: Connection, mut lock: Lock) -> RedisResult<()> {
    let mut impatient = Lock::new(3, &lock.key, 30_000);
    let before = given_up(&mut connection)?;
    let release = spawn(move || {
        while given_up(&mut connection)? == before {
            sleep(Duration::from_millis(5));
        }
        lock.release(&mut connection).map(|released| (released, connection))
    });
    let mut errors = 0;
    while fails(client, |connection| impatient.acquire(connection, Some(20_000)))? {
        errors += 1;
    }
    let (released, mut connection) = release.join().expect("the thread that releases")?;
    assert!(released);
    assert!(errors > 0 && given_up(&mut connection)? <= before + errors);
    let holders: Vec<(String, u64)> = cmd("HGETALL").arg(&impatient.key).query(&mut connection)?;
    assert_eq!(holders, [(impatient.owner.clone(), 1)]);
    assert!(impatient.release(&mut connection)?);
    Ok(())
}

/// A failed call can be repeated or given up.
fn after_errors(client: &Client, key: &str) -> RedisResult<()> {
    let patient = &mut client.get_connection()?;
    let new_lock = |process| Lock::new(process, key, 30_000);
    let (mut lock, mut other, mut lost) = (new_lock(5), new_lock(6), new_lock(7));

    // Release withdraws a waiting request, such as one whose connection broke unnoticed by the server.
    assert!(other.acquire(patient, None)?);
    let mut waiting = new_lock(7);
    waiting.owner = lost.owner.clone();
    let mut connection = client.get_connection()?;
    let waiter = spawn(move || waiting.acquire(&mut connection, Some(20_000)));
    while waiters(patient, key)? == 0 {
        sleep(Duration::from_millis(5));
    }
    assert!(!lost.release(patient)?);
    assert_eq!(waiters(patient, key)?, 0);
    assert!(!waiter.join().expect("the waiting thread")?);

    // An acquire fails, and is given up.
    assert!(fails(client, |connection| lock.acquire(connection, Some(20_000)))?);
    assert!(!lock.release(patient)?);
    assert!(other.release(patient)?);
    assert!(is_free(patient, key)?);

    // It fails after the server granted the lock, and is given up.
    cmd("RLOCK.ACQUIRE").arg(key).arg(&lock.owner).arg(30_000).arg("HOLDS").arg(1).exec(patient)?;
    assert!(lock.release(patient)?);
    assert!(is_free(patient, key)?);

    // A re-entry fails, then a release, which is repeated: one hold of two is left.
    assert!(lock.acquire(patient, None)?);
    assert!(lock.acquire(patient, None)?);
    cmd("CLIENT").arg("PAUSE").arg(20_000).arg("WRITE").exec(patient)?;
    assert!(fails(client, |connection| lock.acquire(connection, None))?);
    assert!(fails(client, |connection| lock.release(connection))?);
    cmd("CLIENT").arg("UNPAUSE").exec(patient)?;
    assert!(lock.release(patient)?);
    let left: u64 = cmd("HGET").arg(key).arg(&lock.owner).query(patient)?;
    assert_eq!(left, 1);

    // The last release fails, and the next acquire has a new owner with one hold.
    let before = lock.owner.clone();
    cmd("CLIENT").arg("PAUSE").arg(20_000).arg("WRITE").exec(patient)?;
    assert!(fails(client, |connection| lock.release(connection))?);
    cmd("CLIENT").arg("UNPAUSE").exec(patient)?;
    assert!(lock.acquire(patient, None)?);
    assert_ne!(lock.owner, before);
    let holders: Vec<(String, u64)> = cmd("HGETALL").arg(key).query(patient)?;
    assert_eq!(holders, [(lock.owner.clone(), 1)]);

    // It fails, and is repeated.
    cmd("CLIENT").arg("PAUSE").arg(20_000).arg("WRITE").exec(patient)?;
    assert!(fails(client, |connection| lock.release(connection))?);
    cmd("CLIENT").arg("UNPAUSE").exec(patient)?;
    lock.release(patient)?; // false if the first one worked after all
    assert!(is_free(patient, key)?);
    assert!(lock.acquire(patient, None)?);
    assert!(lock.release(patient)?);
    Ok(())
}

/// On its own connection, which is unusable after a time-out.
fn fails(client: &Client, call: impl FnOnce(&mut Connection) -> RedisResult<bool>) -> RedisResult<bool> {
    let mut connection = client.get_connection()?;
    connection.set_read_timeout(Some(Duration::from_millis(200)))?;
    match call(&mut connection) {
        Ok(done) => assert!(done),
        Err(error) if error.is_timeout() => return Ok(true),
        Err(error) => return Err(error),
    }
    Ok(false)
}

fn is_free(connection: &mut Connection, key: &str) -> RedisResult<bool> {
    let exists: bool = cmd("EXISTS").arg(key).query(connection)?;
    Ok(!exists)
}

/// How many waiting connections were closed so far.
fn given_up(connection: &mut Connection) -> RedisResult<u64> {
    let stats: InfoDict = cmd("INFO").arg("rlock").query(connection)?;
    Ok(stats.get("rlock_waiters_gone").expect("INFO has it"))
}

/// INFO is a map in RESP3, and a list of names and values in RESP2: redis-rs reads either.
fn waiters(connection: &mut Connection, key: &str) -> RedisResult<u64> {
    let info: Vec<(String, Value)> = cmd("RLOCK.INFO").arg(key).query(connection)?;
    let count = info.into_iter().find(|(name, _)| name == "waiter-count").expect("INFO has it").1;
    Ok(u64::from_redis_value(count)?)
}

fn main() -> RedisResult<()> {
    let url = std::env::var("REDIS_URL").unwrap_or("redis://localhost:6399".to_string());
    // By default, a connection waits for a reply without limit.
    let client = Client::open(&*url)?;
    let (mut connection, mut connection_of_holder) = (client.get_connection()?, client.get_connection()?);
    let (mut holder, mut patient) = (Lock::new(8, "page:rust", 30_000), Lock::new(9, "page:rust", 30_000));
    assert!(holder.acquire(&mut connection_of_holder, None)?);
    let waiter = spawn(move || patient.acquire(&mut connection, Some(6_000)));

    for protocol in ["resp2", "resp3"] {
        scenario(&Client::open(format!("{url}/?protocol={protocol}"))?, protocol)?;
        println!("redis-rs, {protocol}: ok");
    }
    assert!(example(10, &mut client.get_connection()?)?);
    assert!(!waiter.join().expect("the waiting thread")?);
    assert!(holder.release(&mut connection_of_holder)?);
    Ok(())
}
