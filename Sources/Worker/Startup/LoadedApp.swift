package import Configuration
package import TLS

/// An app with its credential and trust loaded, ready to connect.
package struct LoadedApp: Sendable {
    package let settings: AppSettings
    package let context: ClientContext
    package let signingKey: SigningKey

    /// - Throws: `StartFailure` with a line for each file that cannot be used.
    package init(_ settings: AppSettings) throws(StartFailure) {
        self.settings = settings
        var lines: [String] = []
        var key: SigningKey?
        switch settings.credential {
        case .token(let credential):
            do {
                key = try Self.key(credential)
            } catch {
                lines.append("app \(settings.name): \(error)")
            }
        case .certificate: lines.append("app \(settings.name): certificates are not supported yet")
        }
        var context: ClientContext?
        let trust: Trust =
            !settings.verifiesHost ? .anyone : settings.caFile.map { .file($0) } ?? .system
        do {
            context = try ClientContext(ClientOptions(trust: trust))
        } catch {
            lines.append("app \(settings.name): tls: \(error)")
        }
        guard let key, let context else { throw StartFailure(lines) }
        signingKey = key
        self.context = context
    }

    private static func key(_ credential: TokenCredential) throws -> SigningKey {
        switch credential.key {
        case .file(let path): try SigningKey(file: path)
        case .text: try SigningKey(pem: String(decoding: credential.key.load(), as: UTF8.self))
        }
    }

    /// Loads every app; the failure has the lines of all that cannot be.
    package static func load(_ apps: [AppSettings]) throws(StartFailure) -> [LoadedApp] {
        var loaded: [LoadedApp] = []
        var lines: [String] = []
        for app in apps {
            do throws(StartFailure) {
                loaded.append(try LoadedApp(app))
            } catch {
                lines += error.lines
            }
        }
        guard lines.isEmpty else { throw StartFailure(lines) }
        return loaded
    }
}
