internal import APNs
package import Configuration
internal import Kafka
internal import TLS

/// What `check` does: tries everything that `run` will need, sends nothing, and says a line about each thing.
package struct ConfigurationCheck {
    /// One line of the answer.
    package struct Finding: Sendable, Equatable {
        package var isFine: Bool
        package var text: String
    }

    private let configuration: WorkerConfiguration
    private let report: (Finding) -> Void

    /// - Parameter report: gets each finding as soon as it is made.
    package init(_ configuration: WorkerConfiguration, report: @escaping (Finding) -> Void) {
        self.configuration = configuration
        self.report = report
    }

    /// True: everything is fine. Waits for brokers and hosts, some 10 s at most for each.
    package func run() -> Bool {
        let isKafkaFine = checkKafka()
        var areAppsFine = true
        for app in configuration.apps where !check(app) { areAppsFine = false }
        return isKafkaFine && areAppsFine
    }

    private func checkKafka() -> Bool {
        let servers = configuration.kafka.bootstrapServers
        do throws(StartFailure) {
            var readiness = try ClusterReadiness(configuration, try configuration.cluster())
            switch try readiness.attempt(timeoutMs: 10_000) {
            case .ready:
                report(Finding(isFine: true, text: "kafka: \(servers) reached, all topics are there"))
                return true
            case .unreachable(let reason):
                report(Finding(isFine: false, text: "kafka: \(servers) cannot be reached: \(reason)"))
            }
        } catch {
            for line in error.lines { report(Finding(isFine: false, text: "kafka: \(line)")) }
        }
        return false
    }

    private func check(_ settings: AppSettings) -> Bool {
        let app: LoadedApp
        do throws(StartFailure) {
            app = try LoadedApp(settings)
        } catch {
            for line in error.lines { report(Finding(isFine: false, text: line)) }
            return false
        }
        report(Finding(isFine: true, text: "app \(settings.name): the credential can be used"))
        do {
            let answer = try HostProbe.run(
                host: settings.host, port: UInt16(clamping: settings.port), context: app.context)
            report(
                Finding(
                    isFine: true,
                    text: "app \(settings.name): \(settings.host):\(settings.port) reached at \(answer.address), "
                        + "\(answer.tlsVersion), HTTP/2 with \(answer.streams) streams"))
            return true
        } catch {
            report(Finding(isFine: false, text: "app \(settings.name): \(error)"))
            return false
        }
    }
}
