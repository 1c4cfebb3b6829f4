package rlock;

import java.io.IOException;

/** What changes the cluster: the program that has started this one does what it is ordered by a line, and says when it is done. */
final class Orders extends Lines {
    /** @param address host and port */
    Orders(String address) throws IOException {
        super(address);
    }

    /** Moves the slot of a lock from one primary to another, key by key. */
    void move(String lock, int from, int to) throws IOException {
        give("move " + lock + " " + from + " " + to);
    }

    /** A primary and its replica change places, by agreement. */
    void failOver(int shard) throws IOException {
        give("fail-over " + shard);
    }

    /** A primary is killed; its replica takes over, and it comes back as the replica. */
    void kill(int shard) throws IOException {
        give("kill " + shard);
    }

    private void give(String order) throws IOException {
        Check.equal("done", ask(order), order);
    }
}
