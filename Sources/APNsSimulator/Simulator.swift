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
    /// - Throws: one line about a key or book that cannot be read, or a port in use.
    package init(_ options: SimulatorOptions = SimulatorOptions()) throws(SimulatorError) {
        let books = if let path = options.book { try Books(path: path) } else { Books() }
        let credentials = try SimulatorCredentials(directory: options.directory)
        let keys = try Self.keys(options, credentials)
        let context = try Self.context(options, credentials)
        let binaryContext = try Self.context(options, credentials, alpn: [])
        for item in options.feedback { feedback.add(item) }
        let feedback = feedback
        let channels = ChannelBook(seed: options.seed)
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
                    handoff.give(.success((FaultSwitches(acceptors, loop: loop), ports)))
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
        let pages = ControlPages(books: books, switches: switches, channels: channels, feedback: feedback)
        do {
            control = try options.controlPort.map { try PageServer(host: options.host, port: $0, routes: pages.routes) }
        } catch {
            switches.stop()
            thread.join()
            throw SimulatorError("the control endpoint: \(error)")
        }
        controlPort = control?.port
    }

    /// Latency and faults.
    let switches: FaultSwitches

    deinit { stop() }

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
        var keys: [ProviderKey] = []
        let own = (keyID: SimulatorCredentials.keyID, path: credentials.providerKeyFile ?? "of the simulator")
        for (keyID, path) in [own] + options.keys {
            let isOwn = keys.isEmpty
            guard let pem = isOwn ? credentials.providerKeyPEM : try Files.read(path) else {
                throw SimulatorError("the key \(path): no such file")
            }
            do {
                let team = isOwn ? SimulatorCredentials.teamID : nil
                keys.append(ProviderKey(keyID: keyID, teamID: team, key: try VerificationKey(pem: pem)))
            } catch { throw SimulatorError("the key \(path): \(error)") }
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
