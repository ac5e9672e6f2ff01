import EventLoop
import Network
import TLS

/// The doors of the gateway and of the feedback service, where the options want them. Loop's thread.
final class BinaryDoors {
    private(set) var gateway: BinaryDoor?
    private(set) var feedback: BinaryDoor?
    private var service: GatewayService?

    /// Listens at once. Throws one line that names the port.
    init(
        _ options: SimulatorOptions, loop: Loop, context: ServerContext, books: Books, feedback list: FeedbackList
    ) throws(SimulatorError) {
        func open(_ port: UInt16, _ make: @escaping BinaryDoor.Make) throws(SimulatorError) -> BinaryDoor {
            do {
                return try BinaryDoor(
                    host: options.host, port: port, loop: loop, context: context, books: books,
                    connectionLimit: options.connectionLimit, make: make)
            } catch {
                throw SimulatorError("cannot listen on \(options.host):\(port): \(error)")
            }
        }
        if let port = options.gatewayPort {
            let service = GatewayService(
                books: books, manner: GatewayManner(options.gatewayFaults), payloadLimit: options.gatewayPayloadLimit)
            self.service = service
            gateway = try open(port) { GatewayConnection(service: service, loop: loop, onClosed: $0) }
        }
        if let port = options.feedbackPort {
            feedback = try open(port) { FeedbackPeer(list: list, onClosed: $0) }
        }
    }

    /// What befalls the gateway's connections from the next one on.
    func set(faults: [GatewayFault]) {
        service?.manner = GatewayManner(faults)
        gateway?.forEach { ($0 as? GatewayConnection)?.faultsChanged() }
    }

    var isEmpty: Bool { gateway?.isEmpty ?? true && feedback?.isEmpty ?? true }

    /// Stops listening and ends every connection.
    func close() {
        gateway?.close()
        feedback?.close()
    }

    /// Lets go of what must go on the loop's thread.
    func drop() {
        gateway = nil
        feedback = nil
    }
}

/// Holds them for other threads, which only touch them through `Loop.perform`.
final class BinaryDoorsHandle: @unchecked Sendable {
    let gatewayPort: UInt16?
    let feedbackPort: UInt16?
    let doors: BinaryDoors

    init(_ doors: BinaryDoors) {
        self.doors = doors
        gatewayPort = doors.gateway?.port
        feedbackPort = doors.feedback?.port
    }
}
