//! SESSION and users: the share of one user in the ties is bounded.

use rlock_testkit::prelude::*;

use crate::session::HELD;

const SHARE: &str = "!QUEUEFULL this user has its share of all calls with SESSION (rlock.max-share-per-user); try again \
    later, leave SESSION out, or raise the option";

#[test]
fn one_user_cannot_take_all_ties() {
    let (server, admin) = &mut TestServer::builder().conf("rlock.max-ties", 4).start_and_connect();
    let rules = "on >secret ~* &* +@all";
    admin
        .story(&[(&format!("ACL SETUSER evil {rules}"), "OK"), (&format!("ACL SETUSER good {rules}"), "OK")]);
    let [mut evil, mut good] = ["evil", "good"].map(|user| server.connect_as(user, "secret"));
    let _heard = Subscriber::channel(server, "news");
    let hold = |key: &str| format!("RLOCK.ACQUIRE {key} bob 60000 SESSION 300");
    evil.story(&[(&hold("a"), HELD), (&hold("b"), HELD), (&hold("c"), SHARE), ("EXISTS c", "0")]);
    evil.story(&[("RLOCK.ACQUIRE c bob 60000", HELD), ("RLOCK.RENEW c bob 60000 SESSION 300", SHARE)]);
    // What is tied needs no other tie.
    evil.story(&[(&hold("a"), "[2, 60000, 0]"), ("RLOCK.RENEW b bob 60000 SESSION 300", "1")]);
    let waits = "RLOCK.ACQUIRE c carol 60000 SESSION 300 ENQUEUE 0 news";
    evil.story(&[(waits, SHARE)]);
    assert_eq!((counter(server, "user_ties"), counter(server, "refused_by_share")), (2, 3));
    // A tie counts for the user that set it last.
    good.story(&[("RLOCK.RENEW a bob 60000 SESSION 300", "1")]);
    evil.story(&[(waits, "[0, 0, 0]"), (&hold("d"), SHARE)]);
    assert_eq!((counter(server, "ties"), counter(server, "user_ties")), (3, 2));
    // A grant takes over the tie of its entry, and its user.
    admin.story(&[("RLOCK.FORCERELEASE c", "1")]);
    assert_eq!((counter(server, "ties"), counter(server, "user_ties")), (3, 2));
    evil.story(&[(&hold("d"), SHARE), ("RLOCK.RELEASE c carol", "1"), (&hold("d"), HELD)]);
    // The default user takes what is left.
    admin.story(&[(&hold("e"), HELD), (&hold("f"), "!QUEUEFULL too many calls …")]);
    // The end of a connection ends its ties.
    drop(evil);
    wait_for("the ties to end", || counter(server, "ties") == 2);
    assert_eq!(counter(server, "user_ties"), 1);
    drop(good);
    wait_for("the ties to end", || counter(server, "user_ties") == 0);
    // Without a bound for each user.
    admin.story(&[("CONFIG SET rlock.max-share-per-user 100", "OK")]);
    let mut evil = server.connect_as("evil", "secret");
    for key in ["g", "h", "i"] {
        evil.story(&[(&hold(key), HELD)]);
    }
    evil.story(&[(&hold("j"), "!QUEUEFULL too many calls …")]);
}
