import PushRecords

/// The circuit of the apps that share a credential and an environment.
struct CredentialCircuit {
    /// `AppRoute.ownCredential`: of `owner` alone.
    var credential: Int
    var environment: PushEnvironment
    var owner: Int
    /// The app by which it was told of when it opened.
    var name = -1
    var circuit = Circuit()
}
