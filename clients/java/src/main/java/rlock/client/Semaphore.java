package rlock.client;

/** A lock that as many owners may hold at once as it has permits. */
public final class Semaphore extends Handle<Semaphore, Guard> {
  Semaphore(Client client, Plan plan) {
    super(client, plan);
  }

  @Override
  Semaphore with(Plan plan) {
    return new Semaphore(client, plan);
  }

  @Override
  Guard guard(Acquisition one, long token) {
    return new Guard(one, token);
  }
}
