import EventLoop
import HTTPServer
import Network
import PushRecords
import Synchronization
import TLS

/// An APNs that runs here: TLS, HTTP/2, Apple's checks and answers, and whatever goes wrong on request. Beside it,
/// where they are asked for, Apple's retired binary gateway and feedback service.
///
/// It has a thread of its own and one for the control endpoint; everything here may be used from any thread. Block the
/// signals that other threads handle before it is made.
package final class Simulator: Sendable {
    package let books: Books
    package let credentials: SimulatorCredentials
    let environment: PushEnvironment
    /// Where it listens.
    package let host: String
    package let port: UInt16
    /// Where channels are managed; `nil`: nowhere.
    package let managementPort: UInt16?
    /// Where the binary gateway and the feedback service are; `nil`: nowhere.
    package let gatewayPort: UInt16?
    package let feedbackPort: UInt16?
    /// Where the control endpoint listens; `nil`: there is none.
    package let controlPort: UInt16?
    package let channels: ChannelBook

    private let thread: LoopThread
    private let door: DoorHandle
    private let managementDoor: DoorHandle?
    private let binaryDoors: BinaryDoorsHandle
    let feedback = FeedbackList()
    private let control: PageServer?
    private let isStopped = Atomic(false)

    /// Reads or makes certificates and keys, listens and serves.
    ///
    /// - Parameter books: those of a simulator before this one, to go on with them, whatever `options.book` says.
    /// - Throws: one line: a key that cannot be read, a book that is none, a port that is taken.
    package init(_ options: SimulatorOptions = SimulatorOptions(), books: Books? = nil) throws(SimulatorError) {
        let books = if let books { books } else { try Self.books(options) }
        let credentials = try SimulatorCredentials(directory: options.directory)
        let keys = try Self.keys(options, credentials)
        let context = try Self.context(options, credentials)
        let binaryContext = try Self.context(options, credentials, alpn: [])
        for item in options.feedback { try feedback.add(item) }
        let feedback = feedback
        let channels = ChannelBook(limit: options.channelLimit, seed: options.seed)
        let handoff = Handoff<Result<Doors, SimulatorError>>()
        do {
            thread = try LoopThread(name: "apns-simulator") { loop in
                func open(_ port: UInt16, _ options: SimulatorOptions, _ role: Service.Role) throws(SimulatorError)
                    -> Door
                {
                    do {
                        return try Door(
                            host: options.host, port: port, loop: loop,
                            service: Service(
                                options: options, keys: keys, books: books, channels: channels,
                                nowNs: loop.now.monotonicNs, role: role),
                            context: context, connectionLimit: options.connectionLimit)
                    } catch {
                        throw SimulatorError("cannot listen on \(options.host):\(port): \(error)")
                    }
                }
                do throws(SimulatorError) {
                    let door = try open(options.port, options, .notifications)
                    var management: Door?
                    if let port = options.managementPort {
                        // Faults and latency are of notifications.
                        var options = options
                        options.faults = []
                        options.latency = .none
                        management = try open(port, options, .management)
                    }
                    let binary = try BinaryDoors(
                        options, loop: loop, context: binaryContext, books: books, feedback: feedback)
                    handoff.give(
                        .success(
                            Doors(
                                notifications: DoorHandle(door, port: door.port),
                                management: management.map { DoorHandle($0, port: $0.port) },
                                binary: BinaryDoorsHandle(binary))))
                } catch {
                    handoff.give(.failure(error))
                    loop.stop()
                }
            }
        } catch {
            throw SimulatorError("no thread for the simulator: \(error)")
        }
        switch handoff.wait() {
        case .success(let doors):
            door = doors.notifications
            managementDoor = doors.management
            binaryDoors = doors.binary
        case .failure(let error):
            thread.join()
            throw error
        }
        self.books = books
        self.credentials = credentials
        environment = options.environment
        host = options.host
        port = door.port
        managementPort = managementDoor?.port
        gatewayPort = binaryDoors.gatewayPort
        feedbackPort = binaryDoors.feedbackPort
        self.channels = channels
        let switches = FaultSwitches(
            loop: thread.loop, door: door, binaryDoors: binaryDoors, options: options)
        self.switches = switches
        guard let wanted = options.controlPort else {
            control = nil
            controlPort = nil
            return
        }
        do {
            let pages = ControlPages(books: books, switches: switches, channels: channels, feedback: feedback)
            control = try PageServer(host: options.host, port: wanted, routes: pages.routes)
        } catch {
            thread.stop()
            thread.join()
            throw SimulatorError("the control endpoint: \(error)")
        }
        controlPort = control?.port
    }

    /// Latency and faults, to be changed while it runs.
    package let switches: FaultSwitches

    deinit { stop() }

    /// Makes so many channels that store nothing, as requests would; their ids. Throws when they do not fit.
    package func fill(_ count: Int, bundleID: String) throws(SimulatorError) -> [String] {
        var ids: [String] = []
        for _ in 0..<count {
            guard let id = channels.make(bundleID: bundleID, policy: .nothing) else {
                throw SimulatorError("\(bundleID) has \(ids.count) channels more, and no room for others")
            }
            ids.append(id)
        }
        return ids
    }

    /// Lets the feedback service tell of a device token, in hex, that lost the app at that time: once, to whoever asks
    /// next.
    ///
    /// - Throws: one line, when it is no token.
    package func addFeedback(token: String, atSeconds seconds: UInt32) throws(SimulatorError) {
        try feedback.add(SimulatorOptions.FeedbackItem(token: token, seconds: seconds))
    }

    /// Stops listening, says GOAWAY on every connection (status 10 on the gateway's) and closes it, answers
    /// outstanding; returns when all threads are gone. The books stay. Calling it again does nothing.
    package func stop() {
        guard !isStopped.exchange(true, ordering: .acquiringAndReleasing) else { return }
        control?.stop()
        _ = managementDoor?.with(thread.loop) { $0.close() }
        door.stop(on: thread.loop, beside: binaryDoors)
        thread.join()
    }

    private static func books(_ options: SimulatorOptions) throws(SimulatorError) -> Books {
        guard let path = options.book else { return Books(limit: options.bookLimit) }
        return try Books(limit: options.bookLimit, path: path)
    }

    private static func keys(
        _ options: SimulatorOptions, _ credentials: SimulatorCredentials
    ) throws(SimulatorError) -> [ProviderKey] {
        do {
            var keys: [ProviderKey] = []
            let own = try VerificationKey(pem: credentials.providerKeyPEM)
            keys.append(
                ProviderKey(keyID: SimulatorCredentials.keyID, teamID: SimulatorCredentials.teamID) {
                    signed, signature in
                    own.isValid(signature: signature, of: signed)
                })
            for file in options.keys {
                guard let pem = try Files.read(file.path) else {
                    throw SimulatorError("the key \(file.path): no such file")
                }
                let key: VerificationKey
                do { key = try VerificationKey(pem: pem) } catch {
                    throw SimulatorError("the key \(file.path): \(error)")
                }
                keys.append(
                    ProviderKey(keyID: file.keyID, teamID: file.teamID, environment: file.environment) {
                        signed, signature in
                        key.isValid(signature: signature, of: signed)
                    })
            }
            return keys
        } catch let error as SimulatorError {
            throw error
        } catch {
            throw SimulatorError("\(error)")
        }
    }

    private static func context(
        _ options: SimulatorOptions, _ credentials: SimulatorCredentials, alpn: [String] = ["h2"]
    ) throws(SimulatorError) -> ServerContext {
        do {
            let identity = try credentials.authority.issueServer(names: options.names).identity()
            return try ServerContext(ServerOptions(identity: identity, alpn: alpn, clientCertificates: .requested))
        } catch {
            throw SimulatorError("the server's certificate: \(error)")
        }
    }
}

/// The doors of a simulator.
private struct Doors: Sendable {
    var notifications: DoorHandle
    var management: DoorHandle?
    var binary: BinaryDoorsHandle
}

/// Holds the loop's door for other threads, which only touch it through `Loop.perform`.
final class DoorHandle: @unchecked Sendable {
    let port: UInt16
    private var door: Door?

    init(_ door: Door, port: UInt16) {
        self.door = door
        self.port = port
    }

    /// Runs on the loop's thread; waits for it.
    func with<R: Sendable>(_ loop: Loop, _ body: @escaping @Sendable (Door) -> R) -> R? {
        let handoff = Handoff<R?>()
        loop.perform { handoff.give(self.door.map(body)) }
        return handoff.wait()
    }

    /// Ends all connections, then the loop; at most a second for what is still to be sent.
    func stop(on loop: Loop, beside binary: BinaryDoorsHandle) {
        loop.perform {
            guard let door = self.door else { return loop.stop() }
            door.close()
            binary.doors.close()
            self.stopWhenEmpty(loop, beside: binary, triesLeft: 100)
        }
    }

    private func stopWhenEmpty(_ loop: Loop, beside binary: BinaryDoorsHandle, triesLeft: Int) {
        if door?.isEmpty == false || !binary.doors.isEmpty, triesLeft > 0 {
            loop.schedule(afterNs: 10_000_000) {
                self.stopWhenEmpty(loop, beside: binary, triesLeft: triesLeft - 1)
            }
            return
        }
        door = nil
        binary.doors.drop()
        loop.stop()
    }
}
