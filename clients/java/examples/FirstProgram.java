import getid.client.GetidClient;
import getid.client.IdSource;
import getid.client.Layout;

/** The first program of the README. */
public class FirstProgram {
    public static void main(String[] arguments) {
        try (GetidClient client = GetidClient.connect()) {
            IdSource orders = client.sequence("orders");
            System.out.println(orders.next());

            IdSource ids = client.worker("orders", Layout.TWITTER);
            long id = ids.next();
            System.out.println(id + " of " + Layout.TWITTER.timeOf(id));
        }
    }
}
