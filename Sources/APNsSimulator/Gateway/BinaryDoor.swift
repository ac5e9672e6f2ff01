import EventLoop
import Network
import TLS

/// A connection of the gateway or of the feedback service. Loop's thread.
protocol BinaryPeer: SecureChannelDelegate {
    /// Its channel, right after both were made.
    func adopt(_ channel: SecureChannel)
    /// The simulator stops.
    func leave()
}

/// Accepts the connections of the two services that do not speak HTTP/2. Loop's thread.
final class BinaryDoor {
    /// Makes a connection; what it is given is to be called once its channel is gone.
    typealias Make = (_ onClosed: @escaping () -> Void) -> any BinaryPeer

    private let loop: Loop
    private let context: ServerContext
    private let books: Books
    private let connectionLimit: Int
    private let make: Make
    private var listener: Listener?
    private var connections: [Int: any BinaryPeer] = [:]
    private var nextNumber = 0

    /// Listens at once.
    init(
        host: String, port: UInt16, loop: Loop, context: ServerContext, books: Books, connectionLimit: Int,
        make: @escaping Make
    ) throws(SystemError) {
        self.loop = loop
        self.context = context
        self.books = books
        self.connectionLimit = connectionLimit
        self.make = make
        listener = try Listener(host: host, port: port, loop: loop) { [unowned self] in accept($0) }
    }

    var port: UInt16 { listener?.port ?? 0 }
    var isEmpty: Bool { connections.isEmpty }

    func forEach(_ body: (any BinaryPeer) -> Void) { connections.values.forEach(body) }

    /// Stops listening and ends every connection.
    func close() {
        listener?.close()
        listener = nil
        for connection in Array(connections.values) { connection.leave() }
    }

    private func accept(_ accepted: Listener.Accepted) {
        // Dropping it closes it.
        guard connections.count < connectionLimit else { return }
        let number = nextNumber
        nextNumber += 1
        let connection = make { [weak self] in self?.forget(number) }
        connections[number] = connection
        books.write { state in
            state.totals.connections += 1
            state.totals.openConnections += 1
        }
        connection.adopt(SecureChannel(accepted: accepted, context: context, loop: loop, delegate: connection))
    }

    private func forget(_ number: Int) {
        guard connections.removeValue(forKey: number) != nil else { return }
        books.write { $0.totals.openConnections -= 1 }
    }
}
