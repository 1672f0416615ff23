/**
 * Unique IDs and sequence values of a getid server, returned in process.
 *
 * <p>Begin with {@link getid.client.GetidClient#connect(String)}. Unit tests of programs use
 * {@link getid.client.FakeGetid}.
 */
package getid.client;
