/**
 * Distributed locks on Redis and Valkey servers with the rlock module. Begin with {@link
 * rlock.client.Client}.
 */
package rlock.client;
