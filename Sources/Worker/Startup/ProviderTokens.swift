internal import APNs

/// The provider tokens of one thread: one for each key, whichever apps use it (Apple counts a key's tokens). That
/// thread.
final class ProviderTokens {
    /// Those of keys that were replaced stay: should one come back, its token may be too young for a new one.
    private var tokens: [TokenIdentity: ProviderToken] = [:]

    /// `nil`: the app has a certificate.
    func token(of app: LoadedApp) -> ProviderToken? {
        guard let identity = app.tokenIdentity, let key = app.signingKey else { return nil }
        if let token = tokens[identity] { return token }
        let token = ProviderToken(keyID: identity.keyID, teamID: identity.teamID, key: key)
        tokens[identity] = token
        return token
    }
}
