package rlock.client;

/** A lock that as many owners may hold at once as it has permits. */
public final class NamedSemaphore extends Handle<NamedSemaphore, Guard> {
  NamedSemaphore(Client client, Plan plan) {
    super(client, plan);
  }

  @Override
  NamedSemaphore with(Plan plan) {
    return new NamedSemaphore(client, plan);
  }

  @Override
  Guard guard(Acquisition one, long token) {
    return new Guard(one, token);
  }
}
