# Where CUDA's public headers are, and nvcc if there is one. softgpu and what talks to CUDA is written
# against the headers alone: no NVIDIA library is linked and no toolkit is needed.
#
# Looked for, first found wins; each must hold cuda.h, cuda_runtime_api.h and crt/host_defines.h:
#   1. -DTB_CUDA_INCLUDE=FOLDER[;FOLDER]   said by the user, else the environment's TB_CUDA_INCLUDE
#   2. $CUDA_HOME/include, $CUDA_PATH/include
#   3. /usr/local/cuda/include
#   4. /usr/include                        Debian's nvidia-cuda-dev
#   5. build/cuda-headers/include          made by scripts/cuda_headers.sh from requirements-cuda.txt
#   6. .venv                               wheels that torch brought, if nvidia-cuda-crt is among them
#
# What it defines:
#   TB_CUDA_INCLUDE   the folders, mostly one; empty: none found, softgpu is left out
#   TB_CUDA_VERSION   CUDA_VERSION of cuda.h: 13000
#   TB_CUDA_MAJOR     13, as in libcudart.so.13
#   tb_cuda_headers   INTERFACE target with the folders as SYSTEM includes
#   TB_NVML_INCLUDE   the folder of nvml.h: one of those, $CUDA_HOME's, or build/nvml-headers/include, made by
#                     scripts/cuda_headers.sh where a toolkit is without it; empty: no libnvidia-ml.so.1
#   TB_NVCC           nvcc or empty; /usr/local/cuda/bin, PATH, or `scripts/cuda_headers.sh --nvcc`
#   TB_NVCC_ARGS      what that nvcc needs to be told about its own folders, a list
#
# In a CMakeLists.txt: target_link_libraries(x PRIVATE tb_cuda_headers), and if(TB_NVCC) for .cu files.

set(TB_CUDA_VERSION_MIN 12080)

# tb_cuda_usable(variable folder...): do they hold what is compiled against?
function(tb_cuda_usable variable)
    set(${variable} FALSE PARENT_SCOPE)
    foreach(header IN ITEMS cuda.h cuda_runtime_api.h crt/host_defines.h)
        unset(at)
        find_file(at ${header} PATHS ${ARGN} NO_DEFAULT_PATH NO_CACHE)
        if(NOT at)
            return()
        endif()
    endforeach()
    set(${variable} TRUE PARENT_SCOPE)
endfunction()

# What was found is forgotten at each configuration, so that headers that came later are seen.
if(NOT TB_CUDA_INCLUDE AND NOT "$ENV{TB_CUDA_INCLUDE}" STREQUAL "")
    set(TB_CUDA_INCLUDE "$ENV{TB_CUDA_INCLUDE}")
endif()
if(TB_CUDA_INCLUDE)
    tb_cuda_usable(usable ${TB_CUDA_INCLUDE})
    if(NOT usable)
        message(FATAL_ERROR "TB_CUDA_INCLUDE='${TB_CUDA_INCLUDE}' lacks cuda.h, cuda_runtime_api.h or "
            "crt/host_defines.h")
    endif()
else()
    file(GLOB wheels ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/nvidia/cu*/include)
    set(candidates /usr/local/cuda/include /usr/include ${CMAKE_SOURCE_DIR}/build/cuda-headers/include
        ${wheels})
    foreach(variable IN ITEMS CUDA_PATH CUDA_HOME)
        if(NOT "$ENV{${variable}}" STREQUAL "")
            list(PREPEND candidates "$ENV{${variable}}/include")
        endif()
    endforeach()
    foreach(folder IN LISTS candidates)
        tb_cuda_usable(usable ${folder})
        if(usable)
            set(TB_CUDA_INCLUDE ${folder})
            break()
        endif()
    endforeach()
endif()

if(TB_CUDA_INCLUDE)
    find_file(tb_cuda_h cuda.h PATHS ${TB_CUDA_INCLUDE} NO_DEFAULT_PATH NO_CACHE)
    file(STRINGS ${tb_cuda_h} line REGEX "^#define CUDA_VERSION [0-9]+")
    string(REGEX REPLACE "^#define CUDA_VERSION ([0-9]+).*" "\\1" TB_CUDA_VERSION "${line}")
    math(EXPR TB_CUDA_MAJOR "${TB_CUDA_VERSION} / 1000")
    if(TB_CUDA_VERSION LESS TB_CUDA_VERSION_MIN)
        message(STATUS "softgpu is left out: the CUDA headers in '${TB_CUDA_INCLUDE}' are version "
            "${TB_CUDA_VERSION}, older than ${TB_CUDA_VERSION_MIN}")
        set(TB_CUDA_INCLUDE "")
    else()
        message(STATUS "CUDA headers: ${TB_CUDA_INCLUDE} (${TB_CUDA_VERSION})")
        add_library(tb_cuda_headers INTERFACE)
        target_include_directories(tb_cuda_headers SYSTEM INTERFACE ${TB_CUDA_INCLUDE})
    endif()
else()
    message(STATUS "softgpu is left out: no CUDA headers found; scripts/cuda_headers.sh fetches them (no "
        "toolkit needed), or say -DTB_CUDA_INCLUDE=FOLDER")
endif()

unset(TB_NVML_INCLUDE CACHE)
find_path(TB_NVML_INCLUDE nvml.h PATHS ${TB_CUDA_INCLUDE} ${candidates}
    ${CMAKE_SOURCE_DIR}/build/cuda-headers/include ${CMAKE_SOURCE_DIR}/build/nvml-headers/include
    NO_DEFAULT_PATH NO_CACHE)
if(NOT TB_NVML_INCLUDE)
    set(TB_NVML_INCLUDE "")
    message(STATUS "softgpu has no libnvidia-ml.so.1: no nvml.h found; scripts/cuda_headers.sh fetches it")
endif()

set(tb_nvcc_hints /usr/local/cuda/bin)
foreach(variable IN ITEMS CUDA_PATH CUDA_HOME)
    if(NOT "$ENV{${variable}}" STREQUAL "")
        list(PREPEND tb_nvcc_hints "$ENV{${variable}}/bin")
    endif()
endforeach()
file(GLOB wheels ${CMAKE_SOURCE_DIR}/build/cuda-nvcc/nvidia/cu*/bin)
find_program(TB_NVCC nvcc HINTS ${tb_nvcc_hints} ${wheels} DOC "nvcc, for tests that are CUDA programs")
set(TB_NVCC_ARGS "")
# Programs ask for the runtime of nvcc's version, softgpu is one of the headers' version.
if(TB_NVCC AND TB_CUDA_INCLUDE)
    execute_process(COMMAND ${TB_NVCC} --version OUTPUT_VARIABLE tb_nvcc_says ERROR_QUIET)
    if(NOT tb_nvcc_says MATCHES "release ${TB_CUDA_MAJOR}\\.")
        message(STATUS "${TB_NVCC} is not of CUDA ${TB_CUDA_MAJOR} as the headers are: not used")
        set(TB_NVCC "")
    endif()
endif()
if(NOT TB_NVCC)
    set(TB_NVCC "")
    message(STATUS "no nvcc: CUDA programs of the tests are left out; scripts/cuda_headers.sh --nvcc fetches one")
elseif(TB_NVCC MATCHES "/cuda-nvcc/nvidia/")
    # The wheels keep libraries in lib, nvcc looks in lib64.
    get_filename_component(tb_nvcc_top ${TB_NVCC} DIRECTORY)
    get_filename_component(tb_nvcc_top ${tb_nvcc_top} DIRECTORY)
    set(TB_NVCC_ARGS -L${tb_nvcc_top}/lib)
endif()
