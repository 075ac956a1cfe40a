// The program with which ci/mutate judges mutants: `truestep check` of only the implementations
// that can be mutated, so that a mutant builds and links fast. The plain implementation and its
// known bugs are left out, since they do not contain that code.
#include <memory>

#include <truestep/gate/gate_main.hpp>
#include <truestep/properties/scape/implementations.hpp>
#include <truestep/properties/scape/system.hpp>

namespace truestep::properties::gasloc {
gate::System gasloc_system();
}
namespace truestep::properties::dense {
gate::System dense_system();
}
namespace truestep::properties::mapl {
gate::System mapl_system();
}
namespace truestep::properties::exchange {
gate::System exchange_system();
}
namespace truestep::properties::storage {
gate::System storage_system();
}

int main(int count, char** values) {
    using namespace truestep;
    gate::System system = properties::scape::system_of_properties();
    system.implementations = [](const std::shared_ptr<const gate::Group>& group) {
        gate::Implementations all;
        for (const auto& implementation : properties::scape::all_implementations(group))
            all.push_back(implementation);
        return all;
    };
    return gate::gate_main(count, values,
                           {system, properties::gasloc::gasloc_system(), properties::mapl::mapl_system(),
                            properties::dense::dense_system(), properties::exchange::exchange_system(),
                            properties::storage::storage_system()});
}
