// Names the forms in which device code can be tested, with the reason if one is not available.
#include <truestep/gpu/forms.hpp>

#include <algorithm>
#include <cstdlib>

#include <truestep/gpu/availability.hpp>
#if defined(TRUESTEP_WITH_NCCL)
#include <truestep/gpu/nccl.hpp>
#endif

namespace truestep::gpu {

namespace {

#if defined(TRUESTEP_WITH_NCCL)
/// Machines that mpirun has spread the ranks over, by what it tells them.
int machines() {
    const auto told = [](const char* name) {
        const char* const text = std::getenv(name);
        return text == nullptr ? 0
                               : std::atoi(text); // NOLINT(cert-err34-c): 0 will do for what is no number
    };
    // Open MPI's variables, then those of MPICH and its descendants.
    const int here = std::max(told("OMPI_COMM_WORLD_LOCAL_SIZE"), told("MPI_LOCALNRANKS"));
    const int all = std::max(told("OMPI_COMM_WORLD_SIZE"), told("PMI_SIZE"));
    return here == 0 ? 1 : std::max(1, all / here);
}
#endif

std::string named(const std::string& form, const Availability& here) {
    return here.simulated ? form + "-simulated" : form;
}

} // namespace

Form form_of_one_device(const std::string& missing) {
    const Availability here = availability();
    Form form{named("cuda", here), here.devices == 0 ? here.text : missing};
    if (form.unavailable.empty() && !here.simulated)
        form.runs_on = here.text;
    return form;
}

Form form_of_a_device_each(bool threads, const std::string& missing) {
    const Availability here = availability();
    Form form{named("cuda-nccl", here), form_of_one_device(missing).unavailable};
    if (!form.unavailable.empty())
        return form;
    if (here.simulated && !threads) {
        form.unavailable = "simulated NCCL joins the ranks of one process; leave out --communicator mpi";
        return form;
    }
#if defined(TRUESTEP_WITH_NCCL)
    form.runs_on = here.simulated ? std::string() : nccl_description();
    form.most_ranks = here.devices * machines();
#else
    form.unavailable = "built without NCCL; set TRUESTEP_NCCL_ROOT to its folder";
#endif
    return form;
}

} // namespace truestep::gpu
