import getid.client.FakeGetid;
import getid.client.GetidClient;
import getid.client.IdSource;

/** A class that gets its source of IDs from outside, so it needs no server in a unit test. */
public class OrderService {
    private final IdSource orders;

    public OrderService(IdSource orders) {
        this.orders = orders;
    }

    public String place(String item) {
        return orders.next() + "\n" + item;
    }

    public static void main(String[] arguments) {
        // As in a unit test.
        try (GetidClient fake = FakeGetid.startingAt(7)) {
            String placed = new OrderService(fake.sequence("orders")).place("tea");
            if (!placed.equals("7\ntea")) {
                throw new AssertionError(placed);
            }
        }
        // As in a program, where the container calls close() at its end.
        try (GetidClient client = GetidClient.connect()) {
            System.out.println(new OrderService(client.sequence("orders")).place("tea"));
        }
    }
}
