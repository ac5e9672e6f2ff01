import EventLoop
import HTTPServer
import Network
import PushRecords
import Synchronization
import TLS

/// A local APNs server with TLS, HTTP/2, Apple's checks and answers, and faults on request. It can also simulate
/// Apple's retired binary gateway and feedback service.
///
/// A simulator starts one thread for Apple's services and one for the control endpoint. Before you create a simulator,
/// block the signals that other threads handle, because its threads inherit the signal mask. Thread-safe.
package final class Simulator: Sendable {
    package let books: Books
    package let credentials: SimulatorCredentials
    let environment: PushEnvironment
    /// The address on which all services of the simulator listen.
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

    /// Reads or creates certificates and keys, and starts the servers.
    ///
    /// - Throws: A one-line error, for example about an unreadable key or `--book` file, or about a port in use.
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
            throw SimulatorError("cannot start the simulator's thread: \(error)")
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
            throw SimulatorError("cannot start the control endpoint: \(error)")
        }
        controlPort = control?.port
    }

    /// The controls for latency and faults.
    let switches: FaultSwitches

    deinit { stop() }

    /// Stops listening, sends GOAWAY (status 10 on the gateway) and closes every connection without sending outstanding
    /// answers. Returns after all threads have ended. `books` can still be read. Further calls have no effect.
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
                throw SimulatorError("key \(path): no such file")
            }
            do {
                let team = isOwn ? SimulatorCredentials.teamID : nil
                keys.append(ProviderKey(keyID: keyID, teamID: team, key: try VerificationKey(pem: pem)))
            } catch { throw SimulatorError("key \(path): \(error)") }
        }
        return keys
    }

    private static func context(
        _ options: SimulatorOptions, _ credentials: SimulatorCredentials, alpn: [String] = ["h2"]
    ) throws(SimulatorError) -> ServerContext {
        do {
            let identity = try credentials.authority.issueServer(names: options.names).identity()
            return try ServerContext(identity: identity, alpn: alpn, clientCertificates: .requested)
        } catch {
            throw SimulatorError("invalid server certificate: \(error)")
        }
    }
}
