/** Spring Boot and Spring Integration on servers with the rlock module. */
package rlock.spring;
