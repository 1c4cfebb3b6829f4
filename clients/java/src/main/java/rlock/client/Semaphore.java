package rlock.client;

/** A lock that as many owners may hold at once as it has permits. */
public final class Semaphore extends Handle<Semaphore, Guard> {
  Semaphore(Client client, Wire.Spec spec) {
    super(client, spec);
  }

  @Override
  Semaphore with(Wire.Spec spec) {
    return new Semaphore(client, spec);
  }

  @Override
  Guard guard(Acquisition one, long token) {
    return new Guard(one, token);
  }
}
