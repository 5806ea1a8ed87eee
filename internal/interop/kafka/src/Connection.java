import java.io.BufferedInputStream;
import java.io.Closeable;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.function.ToIntFunction;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.protocol.*;

/** One connection to the broker that sends requests exactly as they are built: any version, any field. Not for two threads. */
final class Connection implements Closeable {
    /** Answers that mean "not yet": partition or coordinator still coming up, or the last transaction still completing. */
    private static final List<Integer> NOT_YET = List.of(3, 5, 6, 14, 15, 16, 19, 51);

    private final Socket socket;
    private final DataInputStream in;
    private final OutputStream out;
    private int correlation;

    Connection(int port) throws IOException {
        socket = new Socket(InetAddress.getByName("127.0.0.1"), port);
        socket.setTcpNoDelay(true);
        socket.setSoTimeout(60_000);
        in = new DataInputStream(new BufferedInputStream(socket.getInputStream()));
        out = socket.getOutputStream();
    }

    /** Sends one request and reads its answer. */
    @SuppressWarnings("unchecked")
    <R extends ApiMessage> R call(ApiMessage request, int version) throws IOException {
        ApiKeys key = ApiKeys.forId(request.apiKey());
        RequestHeaderData header = new RequestHeaderData().setRequestApiKey(key.id).setRequestApiVersion((short) version)
            .setCorrelationId(++correlation).setClientId("interop");
        ByteBuffer head = MessageUtil.toByteBufferAccessor(header, key.requestHeaderVersion((short) version)).buffer();
        ByteBuffer body = MessageUtil.toByteBufferAccessor(request, (short) version).buffer();
        int size = head.remaining() + body.remaining();
        out.write(ByteBuffer.allocate(4 + size).putInt(size).put(head).put(body).array());
        out.flush();

        byte[] answer = new byte[in.readInt()];
        in.readFully(answer);
        ByteBufferAccessor readable = new ByteBufferAccessor(ByteBuffer.wrap(answer));
        new ResponseHeaderData(readable, key.responseHeaderVersion((short) version));
        ApiMessage response = ApiMessageType.fromApiKey(key.id).newResponse();
        response.read(readable, (short) version);
        return (R) response;
    }

    /** As call, again while the answer is "not yet"; at most half a minute. */
    <R extends ApiMessage> R patient(ApiMessage request, int version, ToIntFunction<R> error) throws Exception {
        for (int i = 0; ; i++) {
            R r = call(request, version);
            if (!NOT_YET.contains(error.applyAsInt(r)) || i == 1500) return r;
            Thread.sleep(20);
        }
    }

    /** Waits until the coordinator of a group (type 0) or a transactional id (type 1) is there. */
    void coordinator(int type, String key) throws Exception {
        FindCoordinatorRequestData d = new FindCoordinatorRequestData().setKeyType((byte) type).setCoordinatorKeys(List.of(key));
        must("FindCoordinator", this.<FindCoordinatorResponseData>patient(d, 4, r -> r.coordinators().get(0).errorCode()).coordinators().get(0).errorCode());
    }

    static void must(String what, int error) throws IOException {
        if (error != 0) throw new IOException(what + ": " + Errors.forCode((short) error));
    }

    @Override public void close() throws IOException { socket.close(); }
}
