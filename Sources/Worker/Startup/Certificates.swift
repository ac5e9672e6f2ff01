internal import Configuration
internal import PushRecords
internal import TLS

extension LoadedApp {
    /// Returns a line for each reason for which Apple will refuse the app's certificate, or the app will refuse Apple's.
    /// The app is loaded all the same, because one that cannot send must not keep others from sending.
    package func certificateFaults(nowMs: Int64) -> [String] {
        var lines: [String] = []
        if lacksAuthorities {
            lines.append(
                "app \(settings.name): no host can be trusted, because there is no CA certificate in \(SystemTrust.file): "
                    + "install ca-certificates, or set tls.ca_file")
        }
        guard let certificate, case .certificate(let credential) = settings.credential else { return lines }
        let name = "app \(settings.name): the certificate in \(credential.place)"
        if certificate.notAfterMs <= nowMs {
            lines.append("\(name) expired on \(certificate.notAfterDay): put a new one in its place")
        } else if certificate.notBeforeMs > nowMs {
            lines.append("\(name) is valid from \(certificate.notBeforeDay) on: is this machine's clock right?")
        }
        let topics = certificate.topics.isEmpty ? certificate.userID.map { [$0] } ?? [] : certificate.topics
        for id in settings.bundleIDs where !topics.isEmpty && !topics.contains(where: { $0.isTopic(of: id) }) {
            lines.append("\(name) is for \(topics.joined(separator: ", ")), not for \(id) (bundle_ids)")
        }
        let isMarked = certificate.isForDevelopment || certificate.isForProduction
        let isRight =
            settings.environment == .production ? certificate.isForProduction : certificate.isForDevelopment
        if isMarked && !isRight {
            lines.append(
                "\(name) is for \(certificate.isForProduction ? "production" : "development"), the app's environment is "
                    + "\(settings.environment.text)")
        }
        return lines
    }

    /// Returns a line in the last 30 days of the app's certificate.
    package func certificateWarning(nowMs: Int64) -> String? {
        guard let certificate, case .certificate(let credential) = settings.credential else { return nil }
        let leftMs = certificate.notAfterMs - nowMs
        guard leftMs > 0, leftMs <= 30 * 86_400_000 else { return nil }
        return "app \(settings.name): the certificate in \(credential.place) expires on \(certificate.notAfterDay), in "
            + "\(leftMs / 86_400_000) days"
    }
}

extension String {
    /// The bundle id itself, or with the suffix of a push type: `com.example.shop.voip`.
    fileprivate func isTopic(of bundleID: String) -> Bool { self == bundleID || hasPrefix("\(bundleID).") }
}
