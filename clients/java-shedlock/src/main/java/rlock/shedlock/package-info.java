/** ShedLock on servers with the rlock module. */
package rlock.shedlock;
