package rlock.client;

/**
 * What is asked for.
 *
 * @param limit of the wait: NEVER waits without end, 0 asks once
 * @param response how long the server may take to answer a command
 * @param grace of a session; 0 without one
 * @param slack what the clock may miss
 */
record Plan(
    long lease, long limit, boolean renew, boolean fenced, long response, long grace, long slack) {

  Plan withLease(long lease, long response) {
    return new Plan(lease, limit, renew, fenced, response, grace, slack);
  }

  Plan withWait(long limit) {
    return new Plan(lease, limit, renew, fenced, response, grace, slack);
  }

  Plan withResponse(long response) {
    return new Plan(lease, limit, renew, fenced, response, grace, slack);
  }

  Plan withRenew(boolean renew) {
    return new Plan(lease, limit, renew, fenced, response, grace, slack);
  }

  Plan withFenced(boolean fenced) {
    return new Plan(lease, limit, renew, fenced, response, grace, slack);
  }

  Plan withGrace(long grace) {
    return new Plan(lease, limit, renew, fenced, response, grace, slack);
  }

  /**
   * When a lease or a grace ends by the local clock: before the server's, whose clock may run
   * faster.
   */
  long endOf(long sentAt, long time) {
    return sentAt + time - time / 100 - 2 * Machine.MS - slack;
  }
}
