import EventLoop
import HTTPServer
import Network
import PushRecords
import Synchronization
import TLS

/// A local APNs: TLS, HTTP/2, Apple's checks and answers, and faults on request. Optionally Apple's retired binary
/// gateway and feedback service, too.
///
/// It runs a thread of its own and one for the control endpoint; its methods may be called from any thread. Block the
/// signals that other threads handle before you create it.
package final class Simulator: Sendable {
    package let books: Books
    package let credentials: SimulatorCredentials
    let environment: PushEnvironment
    /// The address for notifications. Other services are on the same host.
    package let host: String
    package let port: UInt16
    package let managementPort: UInt16?
    package let gatewayPort: UInt16?
    package let feedbackPort: UInt16?
    package let controlPort: UInt16?
    package let channels: ChannelBook

    private let thread: LoopThread
    let feedback = FeedbackList()
    private let control: PageServer?
    private let isStopped = Atomic(false)

    /// Reads or creates certificates and keys, and starts to serve.
    ///
    /// - Parameter books: the books of a previous simulator, instead of `options.book`.
    /// - Throws: one line about a key or book that cannot be read, or a port in use.
    package init(_ options: SimulatorOptions = SimulatorOptions(), books: Books? = nil) throws(SimulatorError) {
        let books =
            if let books { books } else if let path = options.book {
                try Books(limit: options.bookLimit, path: path)
            } else { Books(limit: options.bookLimit) }
        let credentials = try SimulatorCredentials(directory: options.directory)
        let keys = try Self.keys(options, credentials)
        let context = try Self.context(options, credentials)
        let binaryContext = try Self.context(options, credentials, alpn: [])
        for item in options.feedback { feedback.add(item) }
        let feedback = feedback
        let channels = ChannelBook(limit: options.channelLimit, seed: options.seed)
        let handoff = Handoff<Result<(switches: FaultSwitches, ports: [UInt16?]), SimulatorError>>()
        do {
            thread = try LoopThread(name: "apns-simulator") { loop in
                do throws(SimulatorError) {
                    let acceptors = try Acceptors(
                        options, loop: loop, keys: keys, context: context, binaryContext: binaryContext, books: books,
                        channels: channels, feedback: feedback)
                    let ports = [
                        acceptors.notifications.port, acceptors.management?.port, acceptors.gateway?.port,
                        acceptors.feedback?.port,
                    ]
                    handoff.give(.success((FaultSwitches(acceptors, loop: loop, options: options), ports)))
                } catch {
                    handoff.give(.failure(error))
                    loop.stop()
                }
            }
        } catch {
            throw SimulatorError("no thread for the simulator: \(error)")
        }
        let ports: [UInt16?]
        switch handoff.wait() {
        case .success(let served): (switches, ports) = served
        case .failure(let error):
            thread.join()
            throw error
        }
        self.books = books
        self.credentials = credentials
        environment = options.environment
        host = options.host
        port = ports[0] ?? 0
        managementPort = ports[1]
        gatewayPort = ports[2]
        feedbackPort = ports[3]
        self.channels = channels
        guard let wanted = options.controlPort else {
            control = nil
            controlPort = nil
            return
        }
        do {
            let pages = ControlPages(books: books, switches: switches, channels: channels, feedback: feedback)
            control = try PageServer(host: options.host, port: wanted, routes: pages.routes)
        } catch {
            switches.stop()
            thread.join()
            throw SimulatorError("the control endpoint: \(error)")
        }
        controlPort = control?.port
    }

    /// Latency and faults.
    package let switches: FaultSwitches

    deinit { stop() }

    /// Creates channels that store nothing, and returns their ids. Throws if there is no room for them.
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

    /// Adds a device token, in hex, that lost the app at that time: the feedback service sends it to its next client.
    ///
    /// - Throws: one line if it is no token.
    package func addFeedback(token: String, atSeconds seconds: UInt32) throws(SimulatorError) {
        feedback.add(try SimulatorOptions.FeedbackItem(token: token, seconds: seconds))
    }

    /// Stops listening, sends GOAWAY on every connection (status 10 on the gateway's) and closes it without waiting for
    /// answers. Returns when all threads have ended. The books stay. Calling it again does nothing.
    package func stop() {
        guard !isStopped.exchange(true, ordering: .acquiringAndReleasing) else { return }
        control?.stop()
        switches.stop()
        thread.join()
    }

    private static func keys(
        _ options: SimulatorOptions, _ credentials: SimulatorCredentials
    ) throws(SimulatorError) -> [ProviderKey] {
        func key(_ pem: String, _ file: SimulatorOptions.KeyFile) throws(SimulatorError) -> ProviderKey {
            let key: VerificationKey
            do { key = try VerificationKey(pem: pem) } catch { throw SimulatorError("the key \(file.path): \(error)") }
            return ProviderKey(keyID: file.keyID, teamID: file.teamID, environment: file.environment) {
                key.isValid(signature: $1, of: $0)
            }
        }
        let own = SimulatorOptions.KeyFile(
            path: credentials.providerKeyFile ?? "of the simulator", keyID: SimulatorCredentials.keyID,
            teamID: SimulatorCredentials.teamID)
        var keys = [try key(credentials.providerKeyPEM, own)]
        for file in options.keys {
            guard let pem = try Files.read(file.path) else {
                throw SimulatorError("the key \(file.path): no such file")
            }
            keys.append(try key(pem, file))
        }
        return keys
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
